"""Which bottleneck a profile shows, and what to try next, in one sentence; the first rule that fits decides.

80 % of a peak is "at the limit", and below 60 % of both memory and SM a kernel waits for latency: rule SOLBottleneck of
Nsight Compute (Kernel Profiling Guide, SpeedOfLight). Occupancy, tail and coalescing: Kernel Profiling Guide, and CUDA
C++ Best Practices Guide. Other thresholds are chosen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from kbench.core.counters import Counters, heaviest
from kbench.core.kernel_names import LIBRARY_SHARE, KernelOrigin
from kbench.core.profile import ProfiledKernel, SolutionProfile

AT_LIMIT = 80.0
LATENCY = 60.0
IDLE = 0.3
"""Share of a call from which the idle device is the bottleneck."""
WAITS = 0.1
"""Share of idle time from which a wait for the device is the bottleneck."""
LOW_OCCUPANCY = 0.25
"""16 of Hopper's 64 warps an SM, 4 a scheduler."""
FULL_WAVES, TAIL = 4.0, 0.8
"""With fewer waves than the first, the tail counts where the waves are filled to less than the second."""
SPILLED_SHARE = 1.0
"""Stack of one thread over its registers, in bytes. A kernel at 62 % of the tensor cores' peak had 224 over 512."""
REGISTER_BYTES = 4
SECTOR_USE = 60.0
"""A stride of two floats uses 50 % of each sector of 32 bytes."""
CONFLICTS, MANY_CONFLICTS = 30.0, 60.0
"""Percent of wavefronts: two-way conflicts everywhere are 50. Below the second only if warps wait for shared memory."""
MOST = 110.0
"""Percent of the limit above which it is other arithmetic, or caches."""
WRITTEN = frozenset({KernelOrigin.OWN, KernelOrigin.COMPILED})
"""Origins whose kernels a solution can change: rules about a kernel are for these."""
NO_COUNTERS = Counters(name="")
SHARED_STALLS = frozenset({"short_scoreboard", "mio_throttle", "lg_throttle"})


class Bottleneck(StrEnum):
    """Causes of a call's time."""

    NOTHING_SEEN = "nothing_seen"
    LAUNCH_BOUND = "launch_bound"
    LIBRARY_ONLY = "library_only"
    WASTED_ACCESSES = "wasted_accesses"
    MEMORY_BOUND = "memory_bound"
    COMPUTE_BOUND = "compute_bound"
    LOW_OCCUPANCY = "low_occupancy"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The bottleneck, and a sentence that names it and what to try next."""

    bottleneck: Bottleneck
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """Input of the rules: the whole call, its longest kernel unless a library's, and that kernel's counters."""

    call: SolutionProfile
    kernel: ProfiledKernel | None
    counters: Counters
    """Without any number where the kernel has none."""

    @property
    def name(self) -> str:
        """The kernel's name, short enough for a sentence."""
        return shortened(self.kernel.name) if self.kernel is not None else "the call"


def advise(call: SolutionProfile) -> Advice:
    """Name the bottleneck of a call; every profile has an answer."""
    longest = next(iter(call.kernels), None)
    kernel = longest if longest is not None and longest.origin in WRITTEN else None
    counters = heaviest(call.counters, kernel.name) if kernel is not None else None
    subject = Suspect(call=call, kernel=kernel, counters=counters or NO_COUNTERS)
    for bottleneck, rule in RULES.items():
        if sentence := rule(subject):
            return Advice(bottleneck=bottleneck, sentence=sentence)
    return Advice(bottleneck=Bottleneck.UNEXPLAINED, sentence=_unexplained(subject))


def shortened(name: str, most: int = 60) -> str:
    """Return a kernel's name, cut where it is long."""
    return name if len(name) <= most else f"{name[: most - 3]}..."


def _nothing_seen(it: Suspect) -> str:
    if it.call.kernels:
        return ""
    return "The profiler saw no kernel: nothing ran on the device, or CUPTI is missing or in use by another tool."


def _launch_bound(it: Suspect) -> str:
    """Fit where the device, or on a processor the next operator, waits for Python."""
    call = it.call
    in_python = call.share_of(KernelOrigin.PYTHON)
    if in_python >= IDLE:
        count = sum(kernel.launches for kernel in call.kernels if kernel.origin is KernelOrigin.LIBRARY)
        return (
            f"Python takes {_percent(in_python)} of the call, between {count} calls of operators: use fewer and larger "
            "ones, or `torch.compile`."
        )
    if not call.names_kernels or call.idle_share < (WAITS if call.host.synchronisations else IDLE):
        return ""
    if call.host.synchronisations:
        times = "once" if call.host.synchronisations == 1 else f"{call.host.synchronisations} times"
        return (
            f"The host waits for the device {times} within the call, and the device then idles for "
            f"{_percent(call.idle_share)} of it: keep `.item()`, `.cpu()` and synchronisation out of `forward`."
        )
    count = round(sum(kernel.launches for kernel in call.kernels))
    return (
        f"The device idles for {_percent(call.idle_share)} of the call: its kernels ({count}, "
        f"{call.busy_ns / max(1, count) / 1e3:.3g} µs on average) are over before the host submits the next. "
        "Fuse kernels, or capture the call in a CUDA graph."
    )


def _library_only(it: Suspect) -> str:
    call = it.call
    share = call.share_of(KernelOrigin.LIBRARY, KernelOrigin.COPY)
    if share + call.share_of(KernelOrigin.PYTHON) < LIBRARY_SHARE:
        return ""
    longest = next(kernel for kernel in call.kernels if kernel.origin is not KernelOrigin.PYTHON)
    return (
        f"{_percent(share)} of the time is spent in libraries, the largest part in {shortened(longest.name)} "
        f"({_percent(longest.share)}): a kernel of your own has to replace or fuse that."
    )


def _wasted_accesses(it: Suspect) -> str:
    """Fit where a kernel accesses memory more than its data need: spilled registers, bank conflicts, unused bytes."""
    kernel, seen = it.kernel, it.counters
    stack, registers = (kernel.stack_bytes or 0, kernel.registers or 0) if kernel is not None else (0, 0)
    if registers and stack > SPILLED_SHARE * REGISTER_BYTES * registers:
        return (
            f"{it.name} keeps {stack} bytes of each thread in local memory: {registers} registers do not hold its "
            "values. Hold fewer values at a time, or raise the limit (`__launch_bounds__`, `maxrregcount`)."
        )
    conflicts = seen.bank_conflict_percent or 0.0
    hidden = max(seen.memory_percent or 0.0, seen.tensor_percent or 0.0) >= AT_LIMIT  # behind what is at the limit
    waits = seen.stall in SHARED_STALLS or conflicts >= MANY_CONFLICTS
    if conflicts >= CONFLICTS and waits and not hidden:
        return (
            f"{conflicts:.0f} % of the accesses of {it.name} to shared memory are repeats because of bank conflicts: "
            "pad or swizzle the tile so that the threads of a warp use 32 different banks."
        )
    matters = (seen.sm_percent or 0.0) < AT_LIMIT or seen.stall in {"long_scoreboard", "lg_throttle"}
    if seen.sector_use_percent is not None and seen.sector_use_percent < SECTOR_USE and matters:
        return (
            f"{it.name} uses {seen.sector_use_percent:.0f} % of the bytes that its global accesses move: they are not "
            "coalesced. Let neighbouring threads access neighbouring addresses, if need be through shared memory."
        )
    return ""


def _memory_bound(it: Suspect) -> str:
    """Fit where memory is at its limit by the counters, or without these by the call's compulsory bytes."""
    measured = _at_limit(it, "memory", it.counters.memory_percent, "DRAM's", "moves its compulsory bytes")
    advice = "it is bound by memory, at the limit. Only moving fewer bytes helps: fuse, or store less."
    return f"{measured}: {advice}" if measured else ""


def _compute_bound(it: Suspect) -> str:
    """Fit where arithmetic is at its limit by the counters, or without these by the call's FLOPs."""
    percent, tensor = it.counters.sm_percent, it.counters.tensor_percent or 0.0
    used, pipe = (tensor, "tensor cores'") if percent is not None and tensor >= AT_LIMIT else (percent, "SMs'")
    measured = _at_limit(it, "compute", used, pipe, "computes")
    advice = "it is bound by arithmetic. Only less arithmetic helps, or faster (tensor cores, fewer bits)."
    return f"{measured}: {advice}" if measured else ""


def _at_limit(it: Suspect, bound_by: str, used: float | None, whose: str, does: str) -> str:
    """Write that a kernel, or without counters the call, is at a peak; empty if it is not."""
    if used is not None:
        return f"{it.name} uses {used:.0f} % of the {whose} peak" if used >= AT_LIMIT else ""
    limit, percent = it.call.limit, it.call.percent_of_limit or 0.0
    if limit is None or limit.bound_by != bound_by or not AT_LIMIT <= percent <= MOST:
        return ""
    return f"The call {does} at {percent:.0f} % of the measured peak"


def _low_occupancy(it: Suspect) -> str:
    """Fit where too few blocks or warps are in flight to fill the device."""
    held, seen = it.kernel.occupancy if it.kernel is not None else None, it.counters
    if held is None:
        return ""
    filled = held.waves / -(-held.waves // 1) if 1 < held.waves < FULL_WAVES else 1.0
    if filled < TAIL:
        return (
            f"The grid of {it.name} is {held.waves:.2f} waves of blocks, so the last wave leaves most SMs idle "
            f"({_percent(filled)} of the slots are used): choose block sizes that fill whole waves, or a persistent "
            "kernel."
        )
    near_limit = it.call.percent_of_limit or 0.0
    if seen is not NO_COUNTERS:
        near_limit = max(seen.memory_percent or 0.0, seen.sm_percent or 0.0, seen.tensor_percent or 0.0)
    if held.share >= LOW_OCCUPANCY or near_limit >= LATENCY:
        return ""
    return (
        f"{it.name} fills {_percent(held.share)} of an SM's warps, limited by its {held.limiter}, which leaves too "
        f"few to hide latency: {OCCUPANCY_LEVERS[held.limiter]}."
    )


RULES: dict[Bottleneck, Callable[[Suspect], str]] = {
    Bottleneck.NOTHING_SEEN: _nothing_seen,
    Bottleneck.LAUNCH_BOUND: _launch_bound,
    Bottleneck.LIBRARY_ONLY: _library_only,
    Bottleneck.WASTED_ACCESSES: _wasted_accesses,
    Bottleneck.MEMORY_BOUND: _memory_bound,
    Bottleneck.COMPUTE_BOUND: _compute_bound,
    Bottleneck.LOW_OCCUPANCY: _low_occupancy,
}
"""In the order in which they decide. A rule returns the sentence of the advice, or an empty one if it does not fit."""
OCCUPANCY_LEVERS = {
    "registers": "hold fewer registers, or use smaller blocks",
    "shared memory": "use less shared memory a block",
    "block size": "use smaller blocks",
    "blocks": "use larger blocks",
    "grid": "give the grid more blocks, or split the work of one",
}
"""By what limits the blocks of an SM."""
STALL_LEVERS = {
    "long_scoreboard": "have more loads from memory in flight (unroll, prefetch, `cp.async` or TMA)",
    "short_scoreboard": "use shared memory less often, or in wider accesses",
    "mio_throttle": "use shared memory less often, or in wider accesses",
    "lg_throttle": "use fewer and wider global accesses",
    "barrier": "synchronise smaller groups, or spread the work between barriers more evenly",
    "wait": "give each thread more independent instructions",
    "math_pipe_throttle": "use another pipe, such as the tensor cores",
    "branch_resolving": "branch less",
    "no_instruction": "make the loop's code smaller",
    "imc_miss": "index constant memory uniformly",
}
"""By stall: Kernel Profiling Guide, Warp Scheduler States."""


def _unexplained(it: Suspect) -> str:
    call, kernel = it.call, it.kernel
    longest = call.kernels[0]
    text = f"{shortened(longest.name)} takes {_percent(longest.share)} of the time"
    if call.percent_of_limit is not None and call.percent_of_limit <= 100:
        text += f", and the call attains {call.percent_of_limit:.0f} % of the device's limit"
    elif call.limit is not None and call.limit.bound_by == "compute" and (percent := call.percent_of_limit or 0) > MOST:
        text += f", and the call is at {percent:.0f} % of the limit of arithmetic by the peaks measured"
    if not call.names_kernels:
        return f"{text}; a profiler of the processor (`perf record`) shows where within it."
    if kernel is None:
        return f"{text}; it is a library's: replace it by a kernel of your own, or fuse it with what is around it."
    if it.counters is NO_COUNTERS:
        return f"{text}; no rule explains it without hardware counters: `--ncu` reads them."
    used = _used(it.counters)
    if not used:
        return f"{text}; no rule explains it, and its counters could not be read: see the notes."
    return f"{text}, and nothing is at its limit: {used}. `--keep FILE.ncu-rep` keeps what Nsight Compute opens."


def _used(seen: Counters) -> str:
    peaks = {"tensor cores": seen.tensor_percent, "SM": seen.sm_percent, "memory": seen.memory_percent}
    known = [f"{name} {percent:.0f} %" for name, percent in peaks.items() if percent]
    if not known:
        return ""
    stall = f"; the commonest stall is `{seen.stall}` ({seen.stall_percent:.0f} %)" if seen.stall_percent else ""
    lever = STALL_LEVERS.get(seen.stall, "") if stall else ""
    return f"{', '.join(known)} of the peak{stall}" + (f": {lever}" if lever else "")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
