"""What one kind of device is and does. The other rooms ask a backend, and never which kind of device it is."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from kbench.core.model import Environment
from kbench.devices.cpu import Cpu
from kbench.devices.cuda import Cuda
from kbench.devices.memory import SharedMemory
from kbench.devices.timer import Timer

if TYPE_CHECKING:
    from torch import Tensor


class Backend(Protocol):
    """One kind of device; a new one is a file beside `cpu.py` and `cuda.py`."""

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

    def timer(self, mode: str) -> Timer:
        """Return the timer of a mode (`cold`, `warm`, `graph`)."""

    def synchronize(self) -> None:
        """Wait until the device has done all that was asked of it."""

    def filled(self) -> AbstractContextManager[None]:
        """Return a `with` block in which all memory that is allocated is filled with poison, if it `fills_memory`.

        It costs time and memory where much is allocated and little of it used.
        """

    def release_cached(self) -> None:
        """Give back to the device what this process's torch holds of its memory and does not use."""

    def memory_peak(self) -> AbstractContextManager[Callable[[], int]]:
        """Return a `with` block that gives the most bytes which this process's torch has had beyond those before it."""

    def counted(self) -> AbstractContextManager[None]:
        """Return a `with` block whose kernels a tool that reads hardware counters is to look at."""

    def allocate(self, nbytes: int) -> SharedMemory:
        """Allocate memory that another process can map. Raises MemoryError where there is no room."""

    def attach(self, descriptor: dict[str, Any], fd: int | None) -> SharedMemory:
        """Map memory that another process allocated."""


BACKENDS: dict[str, Backend] = {"cuda": Cuda(), "cpu": Cpu()}


def backend(device: str) -> Backend:
    """Return the backend of a device: `cpu`, `cuda`, `cuda:1`."""
    return BACKENDS[device.partition(":")[0]]


def backend_of(tensor: "Tensor") -> Backend:
    """Return the backend of the device that a tensor lies on; what has no memory (`meta`) counts as the host's."""
    return BACKENDS.get(tensor.device.type, BACKENDS["cpu"])


def attach(descriptor: dict[str, Any], fd: int | None) -> SharedMemory:
    """Map memory that another process allocated, on whatever device."""
    owner = next(each for each in BACKENDS.values() if each.memory_kind == descriptor["kind"])
    return owner.attach(descriptor, fd)


def is_timed_by_host(device: str) -> bool:
    """Return whether a row's device has only the host's clock. Rows of files may name devices that are unknown here."""
    return device == Cpu.kind
