"""The nursery of this process, from which judges and builders are forked: one for a run, or kept for several."""

import contextlib
import importlib.util
import os
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kbench.build import interpreter
from kbench.core.errors import InternalError
from kbench.process.child import Child, Launch
from kbench.process.worker_start import worker_environment
from kbench.sandbox import rungs


@dataclass(slots=True)
class _Shared:
    """The nursery of this process, and the blocks that need it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0
    runs: int = 0
    """Blocks of `nursery`; users are those of `kept` as well."""
    child: Child | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def end(self) -> None:
        """End the nursery, if there is one."""
        if self.child is not None:
            self.child.kill()
        self.child = None


_shared = _Shared()


@contextlib.contextmanager
def nursery(*, starts: bool = True) -> Iterator[None]:
    """Start a nursery for a `with` block, unless there is one that this environment or another run needs.

    The last block ends it. Raises ModuleNotFoundError without torch, which this process does not import itself.
    """
    if starts and importlib.util.find_spec("torch") is None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")
    with _shared.lock:
        if starts and not _shared.runs and _shared.environment != _environment():
            _shared.end()
        _shared.users += 1
        _shared.runs += starts
    try:
        if starts:
            present()
        yield
    finally:
        with _shared.lock:
            _shared.users -= 1
            _shared.runs -= starts
            if not _shared.users:
                _shared.end()


def kept() -> contextlib.AbstractContextManager[None]:
    """Let consecutive runs within a `with` block share a nursery, which ends with the last block."""
    return nursery(starts=False)


def present() -> Child:
    """Return the process to fork from, within `nursery`; another one where it has ended."""
    with _shared.lock:
        if not _shared.users:
            raise InternalError("judges and builders must be started within `nursery`")
        if _shared.child is None or _shared.child.has_ended:
            _shared.environment = _environment()
            launch = Launch(
                module="kbench.process.nursery",
                environment=_shared.environment,
                folder=Path("/"),
                rung=rungs.Rung.NONE,
            )
            _shared.child = Child(launch)
        return _shared.child


def _environment() -> dict[str, str]:
    """Return a worker's environment. Modules that a nursery imports are compiled once for all, if they have to be."""
    folder = Path(tempfile.gettempdir())
    path = os.pathsep.join(os.path.abspath(part) for part in interpreter.search_path().split(os.pathsep))  # noqa: PTH100
    return {**worker_environment(folder), **interpreter.bytecode(writes=True), "PYTHONPATH": path}
