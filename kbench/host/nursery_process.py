"""The nursery of this process, from which judges and builders are forked: one for a run, or kept for several."""

import contextlib
import importlib.util
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from kbench.build import interpreter
from kbench.children.child import Child, Launch
from kbench.children.worker_start import worker_environment
from kbench.core.errors import InternalError
from kbench.sandbox import rungs

Key = frozenset[tuple[str, str]]
"""The environment of a nursery."""
_lock = threading.Lock()
_open: dict[Key, "Nursery"] = {}
_keepers = 0


class Nursery:
    """A process that has imported torch and forks; started when it is first needed, and again where it has ended."""

    def __init__(self, environment: dict[str, str], ahead: Sequence[str]):
        module, folder = "kbench.children.nursery", Path("/")
        self._launch = Launch(
            module=module, environment=environment, folder=folder, rung=rungs.Rung.NONE, arguments=tuple(ahead)
        )
        self._lock = threading.Lock()
        self._child: Child | None = None
        self.users = 0

    def child(self) -> Child:
        """Return the process."""
        with self._lock:
            if self._child is None or self._child.has_ended:
                self._child = Child(self._launch)
            return self._child

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.kill()


@contextlib.contextmanager
def nursery(ahead: Sequence[str] = ()) -> Iterator[Nursery]:
    """Start a nursery with the modules `ahead` for a `with` block; runs with equal environments share one.

    Raises ModuleNotFoundError without torch, which this process does not import itself.
    """
    if importlib.util.find_spec("torch") is None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")
    environment = _environment()
    with _lock:
        one = _open.setdefault(Key(environment.items()), Nursery(environment, ahead))
        one.users += 1
        _close_idle(but=one)
    try:
        one.child()
        yield one
    finally:
        with _lock:
            one.users -= 1
            _close_idle(but=one if _keepers else None)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Let consecutive runs within a `with` block share a nursery."""
    global _keepers  # noqa: PLW0603 - of this process
    with _lock:
        _keepers += 1
    try:
        yield
    finally:
        with _lock:
            _keepers -= 1
            if not _keepers:
                _close_idle(but=None)


def present() -> Child:
    """Return the process to fork from, within `nursery`: the one of this environment, else the newest."""
    with _lock:
        if not _open:
            raise InternalError("judges and builders must be started within `nursery`")
        one = _open.get(Key(_environment().items())) or list(_open.values())[-1]
    return one.child()


def _close_idle(but: Nursery | None) -> None:
    for key, one in list(_open.items()):
        if not one.users and one is not but:
            del _open[key]
            one.close()


def _environment() -> dict[str, str]:
    """Return a worker's environment; what a nursery imports is compiled once for all, where that must be."""
    folder = Path(tempfile.gettempdir())
    path = os.pathsep.join(os.path.abspath(part) for part in interpreter.search_path().split(os.pathsep))  # noqa: PTH100
    return {**worker_environment(folder), **interpreter.bytecode(writes=True), "PYTHONPATH": path}
