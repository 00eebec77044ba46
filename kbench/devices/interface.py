"""Interface of each kind of device: its timer, and memory that one process owns and another one maps."""

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kbench.core.model import Environment

if TYPE_CHECKING:
    from torch import Tensor

Call = Callable[[int], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedCall:
    """One measured call: the device's time, the host's time to submit it, and its result."""

    t_event_ns: int
    t_submit_ns: int
    output: Any


class Timer:
    """Times `call(slot)`; captures and prepares nothing, unless a device's does."""

    name: str

    def start(self) -> None:
        """Prepare this process for calls in a row, so that both arms begin in the same state."""

    def measure(self, call: Call, slot: int) -> TimedCall:
        """Call once and return the time of the call."""
        raise NotImplementedError

    def prepared(self, call: Call, slots: Sequence[int], *, replay: bool) -> Call:  # noqa: ARG002
        """Return `call` for these slots, or the `replay` of a graph of it."""
        return call

    def forget(self) -> None:
        """Release captured graphs, because inputs lie elsewhere now or their numbers changed."""


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
    """True if its memory is not the host's: it is reserved before use, and a crash may leave it broken."""
    queues_calls: bool
    """True if calls wait on the device behind the judge's gate, and if graphs of calls can be replayed."""
    names_kernels: bool
    """True if a profiler and compute-sanitizer see its kernels."""
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

    def free_bytes(self) -> int:
        """Return the free memory of the device's own, in bytes; 0 if it uses the host's."""
        return 0

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
