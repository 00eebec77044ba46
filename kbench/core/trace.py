"""Report of a solution's own process about a call under torch's profiler (Kineto): it explains, and proves nothing."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

LONGEST_NAME = 300
MOST_LAUNCHES = 4096
MOST_NAMES = 256
"""Chosen. Largest number of operators, host calls and kernels' resources, the longest first."""
LARGEST = 1 << 62


class Reported:
    """Figures from an untrusted process: raises ValueError for a negative number, a large one or a long text."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # every one of them is a dataclass
            value = getattr(self, field.name)
            if isinstance(value, int) and not 0 <= value <= LARGEST:
                raise ValueError(f"`{field.name}` is {value}")
            if isinstance(value, str) and len(value) > LONGEST_NAME:
                raise ValueError(f"`{field.name}` has {len(value)} characters")
            if isinstance(value, tuple) and len(value) > (MOST_LAUNCHES if field.name == "launches" else MOST_NAMES):
                raise ValueError(f"`{field.name}` has {len(value)} entries")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceActivity(Reported):
    """One kernel, copy or fill on the device; the launch's shape is 0 where there is none."""

    name: str
    start_ns: int
    """Start, counted from the first activity of the call."""
    duration_ns: int
    blocks: int = 0
    threads: int = 0
    """Threads of one block."""
    registers: int = 0
    """Registers of one thread."""
    shared_bytes: int = 0
    """Static and dynamic shared memory of one block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostActivity(Reported):
    """All uses of one operator, or of one function of CUDA's runtime, in a call."""

    name: str
    count: int
    self_ns: int
    """Time without the named functions that it called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelResources(Reported):
    """Resources that the compiled code of one kernel declares."""

    name: str
    registers: int
    stack_bytes: int
    """Spilled registers and local arrays of one thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceShape(Reported):
    """Sizes of a device from which occupancy is computed."""

    major: int
    minor: int
    """Compute capability."""
    sms: int
    threads_per_sm: int
    registers_per_sm: int
    shared_bytes_per_sm: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTrace(Reported):
    """A call of a solution: its time without a profiler, and what a profiler saw of the shortest of several."""

    call_ns: int
    """Time without the profiler: the mean of several in a row on a device that queues them, else the shortest."""
    profiled_ns: int = 0
    """Host time of the call under the profiler; 0 where it saw none."""
    launches: tuple[DeviceActivity, ...] = ()
    operators: tuple[HostActivity, ...] = ()
    runtime_calls: tuple[HostActivity, ...] = ()
    resources: tuple[KernelResources, ...] = ()
    shape: DeviceShape | None = None
    built_libraries: int = 0
    """Shared libraries that the solution built and has loaded."""
    cut: bool = False
    """True if a list was longer than the largest number of entries."""
    remark: str = ""
    """Facts that could not be found out."""
