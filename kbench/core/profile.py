"""A profile of one call: kernels with their share of the time, whose they are, and what the host did meanwhile."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kbench.core.kernel_names import KernelOrigin, base_name, busy_ns, operator_origin, origin, share_of
from kbench.core.model import Cost
from kbench.core.occupancy import Occupancy, occupancy
from kbench.core.roofline import Limit
from kbench.core.trace import CallTrace, DeviceActivity, HostActivity

OWN_CODE = "own code and Python"
PYTHON = "Python, between operators"
"""Names of the time outside operators on a processor: the second if the solution has no library of its own."""
LAUNCH_FIELDS = ("blocks", "threads", "registers", "shared_bytes")
"""Figures of a kernel that a copy lacks."""
SYNCHRONISES = ("Synchronize", "cudaStreamQuery")
ALLOCATES = ("cudaMalloc", "cudaFree", "cuMemAlloc", "cuMemFree", "cudaHostAlloc", "cuMemCreate", "cudaHostRegister")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledKernel:
    """All launches of one kernel in a call, or all uses of one operator on a processor."""

    name: str
    origin: KernelOrigin
    launches: int
    time_ns: float
    share: float
    """Share of the time of all kernels, or of the call on a processor."""
    blocks: int | None = None
    """Blocks of the longest launch; the figures that follow are of that launch, too."""
    threads: int | None = None
    registers: int | None = None
    shared_bytes: int | None = None
    stack_bytes: int | None = None
    """Spilled registers and local arrays of one thread; None without `cuobjdump`."""
    occupancy: Occupancy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWork:
    """Work of the host inside the call, as CUPTI saw it."""

    kernels: int = 0
    """Number of kernels that ran; a CUDA graph launches many at once."""
    copies: int = 0
    allocations: int = 0
    synchronisations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SolutionProfile:
    """Parts of a solution's time."""

    solution: str
    names_kernels: bool
    """True if the times are of kernels on a device; else they are of operators on the processor."""
    call_ns: float
    """Time of a call without the profiler, several in a row, with warm caches."""
    busy_ns: float
    """Time in which the device worked; on a processor the time of the call."""
    kernels: tuple[ProfiledKernel, ...]
    """The longest first."""
    host: HostWork
    limit: Limit | None = None
    """Limit of the case on this device; None if peaks are not known."""
    gb_per_s: float | None = None
    """Compulsory bytes over the busy time."""
    tflop_per_s: float | None = None
    notes: tuple[str, ...] = ()

    def share_of(self, *origins: KernelOrigin) -> float:
        """Return the share of the time of all kernels of these origins, from 0 to 1."""
        return share_of(((kernel.origin, kernel.time_ns) for kernel in self.kernels), *origins) or 0.0

    @property
    def own_share(self) -> float:
        """Share of the time in the solution's own kernels."""
        return self.share_of(KernelOrigin.OWN)

    @property
    def idle_share(self) -> float:
        """Share of a call's time in which the device had nothing to do; 0 on a processor."""
        return max(0.0, 1 - self.busy_ns / self.call_ns) if self.call_ns else 0.0

    @property
    def percent_of_limit(self) -> float | None:
        """Percentage of the device's limit that the busy time attains."""
        return 100 * self.limit.limit_ns / self.busy_ns if self.limit is not None and self.busy_ns else None


def profiled(
    solution: str,
    trace: CallTrace,
    *,
    names_kernels: bool,
    cost: Cost,
    bound: Limit | None,
    notes: Sequence[str] = (),
) -> SolutionProfile:
    """Sum up the report of a solution's process about a case of this cost; `bound` is the device's limit for it."""
    kernels = _kernels(trace) if names_kernels else _operators(trace)
    worked_ns = float(busy_ns(trace.launches)) if names_kernels else float(trace.call_ns)
    all_notes = [*notes, *([trace.remark] if trace.remark else [])]
    all_notes += ["the call ran more kernels than a profile holds; the shortest are left out"] if trace.cut else []
    return SolutionProfile(
        solution=solution,
        names_kernels=names_kernels,
        call_ns=trace.call_ns,
        busy_ns=worked_ns,
        kernels=tuple(sorted(kernels, key=lambda kernel: -kernel.time_ns)),
        host=_host(trace.runtime_calls, trace.launches),
        limit=bound,
        gb_per_s=cost.dram_bytes / worked_ns if worked_ns else None,
        tflop_per_s=cost.flops / worked_ns / 1e3 if worked_ns else None,
        notes=tuple(all_notes),
    )


def _kernels(trace: CallTrace) -> list[ProfiledKernel]:
    whole = max(1, sum(each.duration_ns for each in trace.launches))
    stacks = {each.name: each.stack_bytes for each in trace.resources}
    groups: dict[str, list[DeviceActivity]] = defaultdict(list)
    for each in trace.launches:
        groups[each.name].append(each)
    found = []
    for name, launches in groups.items():
        longest = max(launches, key=lambda launch: launch.duration_ns)
        time_ns = sum(each.duration_ns for each in launches)
        shape = {name: getattr(longest, name) for name in LAUNCH_FIELDS} if longest.blocks > 0 else {}
        found.append(
            ProfiledKernel(
                name=name,
                origin=origin(name),
                launches=len(launches),
                time_ns=time_ns,
                share=time_ns / whole,
                **shape,
                stack_bytes=_stack_bytes(stacks, name),
                occupancy=occupancy(longest, trace.shape) if trace.shape is not None else None,
            )
        )
    return found


def _stack_bytes(known: Mapping[str, int], name: str) -> int | None:
    """Look a kernel up by its name, or by its bare name if only one value has that."""
    if name in known:
        return known[name]
    same = {value for other, value in known.items() if base_name(other) == base_name(name)}
    return same.pop() if len(same) == 1 else None


def _operators(trace: CallTrace) -> list[ProfiledKernel]:
    """Return operators by their own time, and the time outside operators, as shares of a call without the profiler.

    The profiler makes calls longer: Python gets the smaller rest of a call with the profiler and of one without.
    """
    in_operators = sum(each.self_ns for each in trace.operators)
    rest = trace.profiled_ns - in_operators
    rows = [(each.name, operator_origin(each.name), each.count, each.self_ns) for each in trace.operators]
    is_compiled = any(whose is KernelOrigin.COMPILED for _, whose, *_ in rows)  # torch.compile builds libraries, too
    if trace.built_libraries and not is_compiled:
        rows.append((OWN_CODE, KernelOrigin.OWN, 1, max(0, rest)))
    else:
        rows.append((PYTHON, KernelOrigin.PYTHON, 1, max(0, min(rest, trace.call_ns - in_operators))))
    whole = max(1, sum(ns for *_, ns in rows))
    return [
        ProfiledKernel(name=name, origin=whose, launches=count, time_ns=trace.call_ns * ns / whole, share=ns / whole)
        for name, whose, count, ns in rows
        if ns
    ]


def _host(calls: Sequence[HostActivity], launches: Sequence[DeviceActivity]) -> HostWork:
    def count(*words: str) -> int:
        return sum(each.count for each in calls if any(word in each.name for word in words))

    return HostWork(
        kernels=sum(origin(each.name) is not KernelOrigin.COPY for each in launches),
        copies=sum(origin(each.name) is KernelOrigin.COPY for each in launches),
        allocations=count(*ALLOCATES),
        synchronisations=count(*SYNCHRONISES),
    )
