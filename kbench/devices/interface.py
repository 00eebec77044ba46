"""What each kind of device offers to the other rooms, and the memory that one process owns and another one maps."""

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
    """A uint8 tensor over it."""
    descriptor: dict[str, Any]
    """What another process maps it by: plain JSON, with a file descriptor beside it where `fd` is one."""
    fd: int | None
    release: Callable[[], None]


class Backend:
    """One kind of device; a new one is a file beside `cpu.py` and `cuda.py`, and may leave out what it need not do."""

    kind: str
    """`cuda` or `cpu`: what torch calls it, and rows hold."""
    memory_kind: str
    """What its shared memory is called in a descriptor."""
    has_own_memory: bool
    """Whether its memory is apart from the host's: it is reserved before use, and tensors there are no host's."""
    queues_calls: bool
    """Whether calls wait on the device behind the judge's gate, and other processes may get ready meanwhile."""
    replays_graphs: bool
    """Whether `--mode graph` has graphs to replay."""
    names_kernels: bool
    """Whether a profiler and compute-sanitizer see its kernels."""
    fills_memory: bool
    """Whether `filled` finds what is never written where free memory of the outputs' sizes was poisoned in vain."""
    can_break: bool
    """Whether a crash may leave it broken, so that it is probed."""
    preferred_cases: tuple[str, ...]
    """Cases that a run takes where none is named: the first of these that a problem has."""

    def open_ahead(self) -> None:
        """Open the device in this process, before torch does: in another thread, it takes no time of Python's."""

    def identify(self) -> Environment:
        """Describe the first such device that torch sees, and the software around it. Imports torch."""
        raise NotImplementedError

    def timer(self, mode: str) -> Timer:
        """Return the timer of a mode (`cold`, `warm`, `graph`)."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait until the device has done all that was asked of it."""
        raise NotImplementedError

    def unchecked_error(self) -> str:
        """Return and forget the error of a launch in this process that nobody has checked; empty without one.

        Else the next kernel of torch would be blamed for it.
        """
        return ""

    def filled(self) -> AbstractContextManager[None]:
        """Return a `with` block in which all memory that is allocated is filled with poison, if it `fills_memory`."""
        return contextlib.nullcontext()

    def release_cached(self) -> None:
        """Give back to the device what this process's torch holds of its memory and does not use."""

    def memory_peak(self) -> AbstractContextManager[Callable[[], int]]:
        """Return a `with` block that gives the most bytes which this process's torch has had beyond those before it."""
        return contextlib.nullcontext(lambda: 0)

    def counted(self) -> AbstractContextManager[None]:
        """Return a `with` block whose kernels a tool that reads hardware counters is to look at."""
        return contextlib.nullcontext()

    def allocate(self, nbytes: int) -> SharedMemory:
        """Allocate memory that another process can map. Raises MemoryError where there is no room."""
        raise NotImplementedError

    def attach(self, descriptor: dict[str, Any], fd: int | None) -> SharedMemory:
        """Map memory that another process allocated."""
        raise NotImplementedError
