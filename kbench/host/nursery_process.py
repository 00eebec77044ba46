"""The nursery of this process, from which judges and builders are forked: one for a run, or kept for several."""

import contextlib
import importlib.util
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from kbench.build import interpreter
from kbench.children.child import Child, Launch
from kbench.children.worker_start import worker_environment
from kbench.core.errors import InternalError
from kbench.sandbox import rungs

_lock = threading.Lock()
_users = 0
_child: Child | None = None


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Let consecutive runs within a `with` block share a nursery, and end it with the last block."""
    global _users, _child  # noqa: PLW0603 - of this process
    with _lock:
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users and _child is not None:
                _child.kill()
                _child = None


@contextlib.contextmanager
def nursery() -> Iterator[None]:
    """Start a nursery for a `with` block, unless there is one.

    Raises ModuleNotFoundError without torch, which this process does not import itself.
    """
    if importlib.util.find_spec("torch") is None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")
    with kept():
        present()
        yield


def present() -> Child:
    """Return the process to fork from, within `nursery`; another one where it has ended."""
    global _child  # noqa: PLW0603 - of this process
    with _lock:
        if not _users:
            raise InternalError("judges and builders must be started within `nursery`")
        if _child is None or _child.has_ended:
            environment, rung = _environment(), rungs.Rung.NONE
            launch = Launch(module="kbench.children.nursery", environment=environment, folder=Path("/"), rung=rung)
            _child = Child(launch)
        return _child


def _environment() -> dict[str, str]:
    """Return a worker's environment. Modules that a nursery imports are compiled once for all, if they have to be."""
    folder = Path(tempfile.gettempdir())
    path = os.pathsep.join(os.path.abspath(part) for part in interpreter.search_path().split(os.pathsep))  # noqa: PTH100
    return {**worker_environment(folder), **interpreter.bytecode(writes=True), "PYTHONPATH": path}
