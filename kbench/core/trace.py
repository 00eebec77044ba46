"""Report of a solution's own process about a call under torch's profiler (Kineto): it explains, and proves nothing."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import MaxLen

from kbench.core.ranges import NO_OTHER_FIELD, NonNegative

LONGEST_NAME = 300
MOST_LAUNCHES = 4096
MOST_NAMES = 256
"""Chosen. Largest number of operators, host calls and kernels' resources, the longest first."""
ShortText = Annotated[str, MaxLen(LONGEST_NAME)]


class Reported:
    """Figures from an untrusted process, which pydantic checks where they arrive."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_FIELD


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceActivity(Reported):
    """One kernel, copy or fill on the device; the launch's shape is 0 where there is none."""

    name: ShortText
    start_ns: NonNegative
    """Start, counted from the first activity of the call."""
    duration_ns: NonNegative
    blocks: NonNegative = 0
    threads: NonNegative = 0
    """Threads of one block."""
    registers: NonNegative = 0
    """Registers of one thread."""
    shared_bytes: NonNegative = 0
    """Static and dynamic shared memory of one block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostActivity(Reported):
    """All uses of one operator, or of one function of CUDA's runtime, in a call."""

    name: ShortText
    count: NonNegative
    self_ns: NonNegative
    """Time without the named functions that it called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelResources(Reported):
    """Resources that the compiled code of one kernel declares."""

    name: ShortText
    registers: NonNegative
    stack_bytes: NonNegative
    """Spilled registers and local arrays of one thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceShape(Reported):
    """Sizes of a device from which occupancy is computed."""

    major: NonNegative
    minor: NonNegative
    """Compute capability."""
    sms: NonNegative
    threads_per_sm: NonNegative
    registers_per_sm: NonNegative
    shared_bytes_per_sm: NonNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTrace(Reported):
    """A call of a solution: its time without a profiler, and what a profiler saw of the shortest of several."""

    call_ns: NonNegative
    """Time without the profiler: the mean of several in a row on a device that queues them, else the shortest."""
    profiled_ns: NonNegative = 0
    """Host time of the call under the profiler; 0 where it saw none."""
    launches: Annotated[tuple[DeviceActivity, ...], MaxLen(MOST_LAUNCHES)] = ()
    operators: Annotated[tuple[HostActivity, ...], MaxLen(MOST_NAMES)] = ()
    runtime_calls: Annotated[tuple[HostActivity, ...], MaxLen(MOST_NAMES)] = ()
    resources: Annotated[tuple[KernelResources, ...], MaxLen(MOST_NAMES)] = ()
    shape: DeviceShape | None = None
    built_libraries: NonNegative = 0
    """Shared libraries that the solution built and has loaded."""
    cut: bool = False
    """True if a list was longer than the largest number of entries."""
    remark: ShortText = ""
    """Facts that could not be found out."""
