"""Interface of each kind of device, and memory that one process owns and another one maps."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kbench.core.model import Environment
from kbench.devices.timer import Timer

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory:
    """A block of memory; `release` frees it, or ends the mapping of another process's."""

    bytes: "Tensor"
    """The block as a uint8 tensor."""
    descriptor: dict[str, Any]
    """Description by which another process maps the block: plain JSON, and the descriptor `fd` if there is one."""
    fd: int | None
    release: Callable[[], None]


class Backend:
    """One kind of device; a new one is a file beside `cpu.py` and `cuda.py`, without methods that have a default."""

    kind: str
    """`cuda` or `cpu`, the name in torch and in rows."""
    has_own_memory: bool
    """True if its memory is not the host's, so that it is reserved before use."""
    queues_calls: bool
    """True if calls wait on the device behind the judge's gate, while other processes get ready."""
    replays_graphs: bool
    """True if `--mode graph` has graphs to replay."""
    names_kernels: bool
    """True if a profiler and compute-sanitizer see its kernels."""
    can_break: bool
    """True if a crash may leave it broken, so that it is probed."""
    preferred_cases: tuple[str, ...]
    """Default cases: a run without `--case` takes the first of these that the problem has."""

    def open_ahead(self) -> None:
        """Open the device in this process before torch does, in a thread that does not hold Python's lock."""

    def settle(self) -> None:
        """Make first calls of the host's libraries, once torch is there, that two threads must not make at once."""

    def identify(self) -> Environment:
        """Describe the first such device that torch sees, and the software around it. Imports torch."""
        raise NotImplementedError

    def timer(self, mode: str) -> Timer:
        """Return the timer of a mode (`cold`, `warm`, `graph`)."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait until the device has done all its work."""
        raise NotImplementedError

    def unchecked_error(self) -> str:
        """Return and clear the error of an unchecked launch in this process; empty without one.

        Otherwise the next kernel of torch is blamed for it.
        """
        return ""

    def release_cached(self) -> None:
        """Free the device memory that this process's torch caches."""

    def memory_peak(self) -> AbstractContextManager[Callable[[], int]]:
        """Return a `with` block that gives the peak of torch's memory inside it, in bytes above the start."""
        return contextlib.nullcontext(lambda: 0)

    def counted(self) -> AbstractContextManager[None]:
        """Return a `with` block whose kernels a tool for hardware counters measures."""
        return contextlib.nullcontext()

    def allocate(self, nbytes: int) -> SharedMemory:
        """Allocate memory that another process can map. Raises MemoryError if there is no room."""
        raise NotImplementedError

    def attach(self, descriptor: dict[str, Any], fd: int | None) -> SharedMemory:
        """Map memory that another process allocated."""
        raise NotImplementedError
