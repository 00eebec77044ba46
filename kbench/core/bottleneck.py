"""Which bottleneck a profile shows, and what to try next, in one sentence; the first rule that fits decides.

80 % of a peak is "at the limit", and below 60 % of both memory and SM a kernel waits for latency: rule SOLBottleneck of
Nsight Compute (Kernel Profiling Guide, SpeedOfLight). Occupancy, tail and coalescing: Kernel Profiling Guide, and CUDA
C++ Best Practices Guide. Other thresholds are chosen. All ten of `tests/bottlenecks.py --ncu` are named right (H200).
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
STALLED = 30.0
"""Percent of the cycles, as in Nsight Compute's own rule."""
MOST = 110.0
"""Percent of the limit above which it is other arithmetic, or caches."""
PASS = 0.1
"""A kernel with a smaller share of the time does not pass over all of the data."""
WRITTEN = frozenset({KernelOrigin.OWN, KernelOrigin.COMPILED})
"""Origins whose kernels a solution can change: rules about a kernel are for these."""
SHARED_STALLS = frozenset({"short_scoreboard", "mio_throttle", "lg_throttle"})


class Bottleneck(StrEnum):
    """What a call's time goes to."""

    NOTHING_SEEN = "nothing_seen"
    FALLBACK = "fallback"
    SYNCHRONISING = "synchronising"
    LAUNCH_BOUND = "launch_bound"
    PYTHON_BOUND = "python_bound"
    LIBRARY_ONLY = "library_only"
    SPILLS = "spills"
    BANK_CONFLICTS = "bank_conflicts"
    UNCOALESCED = "uncoalesced"
    MEMORY_BOUND = "memory_bound"
    COMPUTE_BOUND = "compute_bound"
    TAIL_EFFECT = "tail_effect"
    LOW_OCCUPANCY = "low_occupancy"
    LATENCY_BOUND = "latency_bound"
    SEVERAL_PASSES = "several_passes"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The bottleneck, and a sentence that names it and what to try next."""

    bottleneck: Bottleneck
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """What the rules look at: the whole call, its longest kernel unless a library's, and that kernel's counters."""

    call: SolutionProfile
    kernel: ProfiledKernel | None
    counters: Counters | None

    @property
    def name(self) -> str:
        """The kernel's name, short enough for a sentence."""
        return shortened(self.kernel.name) if self.kernel is not None else "the call"


def advise(call: SolutionProfile) -> Advice:
    """Name the bottleneck of a call; every profile has an answer."""
    longest = next(iter(call.kernels), None)
    kernel = longest if longest is not None and longest.origin in WRITTEN else None
    counters = heaviest(call.counters, kernel.name) if kernel is not None else None
    subject = Suspect(call=call, kernel=kernel, counters=counters)
    for bottleneck, rule in RULES:
        sentence = rule(subject)
        if sentence is not None:
            return Advice(bottleneck=bottleneck, sentence=sentence)
    return Advice(bottleneck=Bottleneck.UNEXPLAINED, sentence=_unexplained(subject))


def shortened(name: str, most: int = 60) -> str:
    """Return a kernel's name, cut where it is long."""
    return name if len(name) <= most else f"{name[: most - 3]}..."


def _nothing_seen(it: Suspect) -> str | None:
    if it.call.kernels:
        return None
    return "The profiler saw no kernel: nothing ran on the device, or CUPTI is missing or in use by another tool."


def _fallback(it: Suspect) -> str | None:
    if not it.call.is_fallback:
        return None
    ran = "a shared library of its own" if not it.call.names_kernels else "a kernel of its own"
    return (
        f"The source declares kernels of its own, but the call never used {ran}: it fell back to libraries. "
        "Look for a caught exception or a condition around the load."
    )


def _synchronising(it: Suspect) -> str | None:
    call = it.call
    if not call.names_kernels or not call.host.synchronisations or call.idle_share < WAITS:
        return None
    return (
        f"The host waits for the device {_times(call.host.synchronisations)} within the call, and the device then "
        f"idles for {_percent(call.idle_share)} of it: keep `.item()`, `.cpu()` and synchronisation out of `forward`."
    )


def _launch_bound(it: Suspect) -> str | None:
    call = it.call
    if not call.names_kernels or call.idle_share < IDLE:
        return None
    count = round(sum(kernel.launches for kernel in call.kernels))
    each_us = call.busy_ns / max(1, count) / 1e3
    return (
        f"The device idles for {_percent(call.idle_share)} of the call: its kernels ({count}, {each_us:.3g} µs on "
        "average) are over before the host submits the next. Fuse kernels, or capture the call in a CUDA graph."
    )


def _python_bound(it: Suspect) -> str | None:
    share = it.call.share_of(KernelOrigin.PYTHON)
    if share < IDLE:
        return None
    count = sum(kernel.launches for kernel in it.call.kernels if kernel.origin is KernelOrigin.LIBRARY)
    return (
        f"Python takes {_percent(share)} of the call, between {count} calls of operators: use fewer and larger ones, "
        "or `torch.compile`."
    )


def _library_only(it: Suspect) -> str | None:
    share = it.call.share_of(KernelOrigin.LIBRARY, KernelOrigin.COPY)
    if share + it.call.share_of(KernelOrigin.PYTHON) < LIBRARY_SHARE:
        return None
    longest = next(kernel for kernel in it.call.kernels if kernel.origin is not KernelOrigin.PYTHON)
    return (
        f"{_percent(share)} of the time is spent in libraries, the largest part in {shortened(longest.name)} "
        f"({_percent(longest.share)}): a kernel of your own has to replace or fuse that."
    )


def _spills(it: Suspect) -> str | None:
    kernel = it.kernel
    if kernel is None or not kernel.stack_bytes or not kernel.registers:
        return None
    if kernel.stack_bytes <= SPILLED_SHARE * REGISTER_BYTES * kernel.registers:
        return None
    return (
        f"{it.name} keeps {kernel.stack_bytes} bytes of each thread in local memory: {kernel.registers} registers do "
        "not hold its values. Hold fewer values at a time, or raise the limit (`__launch_bounds__`, `maxrregcount`)."
    )


def _bank_conflicts(it: Suspect) -> str | None:
    seen = it.counters
    if seen is None or (seen.bank_conflict_percent or 0.0) < CONFLICTS:
        return None
    if max(seen.memory_percent or 0.0, seen.tensor_percent or 0.0) >= AT_LIMIT:
        return None  # they are hidden behind what is at the limit
    if seen.stall not in SHARED_STALLS and (seen.bank_conflict_percent or 0.0) < MANY_CONFLICTS:
        return None
    return (
        f"{seen.bank_conflict_percent:.0f} % of the accesses of {it.name} to shared memory are repeats because of bank "
        "conflicts: pad or swizzle the tile so that the threads of a warp use 32 different banks."
    )


def _uncoalesced(it: Suspect) -> str | None:
    seen = it.counters
    if seen is None or seen.sector_use_percent is None or seen.sector_use_percent >= SECTOR_USE:
        return None
    if (seen.sm_percent or 0.0) >= AT_LIMIT and seen.stall not in {"long_scoreboard", "lg_throttle"}:
        return None
    return (
        f"{it.name} uses {seen.sector_use_percent:.0f} % of the bytes that its global accesses move: they are not "
        "coalesced. Let neighbouring threads access neighbouring addresses, if need be through shared memory."
    )


def _memory_bound(it: Suspect) -> str | None:
    seen, call = it.counters, it.call
    if seen is not None and seen.memory_percent is not None:
        if seen.memory_percent < AT_LIMIT:
            return None
        measured = f"{it.name} uses {seen.memory_percent:.0f} % of the DRAM's peak"
    elif call.limit is not None and call.limit.bound_by == "memory" and _at_limit(call):
        measured = f"The call moves its compulsory bytes at {call.percent_of_limit:.0f} % of the measured peak"
    else:
        return None
    return f"{measured}: it is bound by memory, at the limit. Only moving fewer bytes helps: fuse, or store less."


def _compute_bound(it: Suspect) -> str | None:
    seen, call = it.counters, it.call
    if seen is not None and seen.sm_percent is not None:
        pipe, used = "tensor cores'", seen.tensor_percent or 0.0
        if used < AT_LIMIT:
            pipe, used = "SMs'", seen.sm_percent
        if used < AT_LIMIT:
            return None
        measured = f"{it.name} uses {used:.0f} % of the {pipe} peak"
    elif call.limit is not None and call.limit.bound_by == "compute" and _at_limit(call):
        measured = f"The call computes at {call.percent_of_limit:.0f} % of the measured peak"
    else:
        return None
    return f"{measured}: it is bound by arithmetic. Only less arithmetic helps, or faster (tensor cores, fewer bits)."


def _tail_effect(it: Suspect) -> str | None:
    held = it.kernel.occupancy if it.kernel is not None else None
    if held is None or not 1 < held.waves < FULL_WAVES:
        return None
    filled = held.waves / -(-held.waves // 1)
    if filled >= TAIL:
        return None
    return (
        f"The grid of {it.name} is {held.waves:.2f} waves of blocks, so the last wave leaves most SMs idle "
        f"({_percent(filled)} of the slots are used): choose block sizes that fill whole waves, or a persistent kernel."
    )


def _low_occupancy(it: Suspect) -> str | None:
    held, seen = it.kernel.occupancy if it.kernel is not None else None, it.counters
    if held is None or held.share >= LOW_OCCUPANCY:
        return None
    near_limit = it.call.percent_of_limit or 0.0
    if seen is not None:
        near_limit = max(seen.memory_percent or 0.0, seen.sm_percent or 0.0, seen.tensor_percent or 0.0)
    if near_limit >= LATENCY:
        return None
    lever = {
        "registers": "hold fewer registers, or use smaller blocks",
        "shared memory": "use less shared memory a block",
        "block size": "use smaller blocks",
        "blocks": "use larger blocks",
        "grid": "give the grid more blocks, or split the work of one",
    }[held.limiter]
    return (
        f"{it.name} fills {_percent(held.share)} of an SM's warps, limited by its {held.limiter}, which leaves too few "
        f"to hide latency: {lever}."
    )


def _latency_bound(it: Suspect) -> str | None:
    seen = it.counters
    if seen is None or seen.memory_percent is None or seen.sm_percent is None:
        return None
    if max(seen.memory_percent, seen.sm_percent) >= LATENCY or (seen.stall_percent or 0.0) < STALLED:
        return None
    lever = STALL_LEVERS.get(seen.stall, "read the stall in Nsight Compute's source view")
    return (
        f"{it.name} waits: memory {seen.memory_percent:.0f} %, SM {seen.sm_percent:.0f} %, and "
        f"{seen.stall_percent:.0f} % of its warps' time is the stall `{seen.stall}`. Next: {lever}."
    )


def _several_passes(it: Suspect) -> str | None:
    call = it.call
    passing = [kernel for kernel in call.kernels if kernel.share >= PASS]
    if it.counters is not None or call.limit is None or call.limit.bound_by != "memory" or not call.percent_of_limit:
        return None
    passes = 100 / call.percent_of_limit
    if not 100 / AT_LIMIT < passes <= len(passing):
        return None
    return (
        f"{len(passing)} kernels in turn take {passes:.2f} times as long as moving the compulsory bytes once: "
        "data that several of them read or write explains that. Fuse them; `--ncu` shows whether memory limits each."
    )


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

RULES: tuple[tuple[Bottleneck, Callable[[Suspect], str | None]], ...] = (
    (Bottleneck.NOTHING_SEEN, _nothing_seen),
    (Bottleneck.FALLBACK, _fallback),
    (Bottleneck.SYNCHRONISING, _synchronising),
    (Bottleneck.LAUNCH_BOUND, _launch_bound),
    (Bottleneck.PYTHON_BOUND, _python_bound),
    (Bottleneck.LIBRARY_ONLY, _library_only),
    (Bottleneck.SPILLS, _spills),
    (Bottleneck.BANK_CONFLICTS, _bank_conflicts),
    (Bottleneck.UNCOALESCED, _uncoalesced),
    (Bottleneck.MEMORY_BOUND, _memory_bound),
    (Bottleneck.COMPUTE_BOUND, _compute_bound),
    (Bottleneck.TAIL_EFFECT, _tail_effect),
    (Bottleneck.LOW_OCCUPANCY, _low_occupancy),
    (Bottleneck.LATENCY_BOUND, _latency_bound),
    (Bottleneck.SEVERAL_PASSES, _several_passes),
)


def _unexplained(it: Suspect) -> str:
    call, kernel = it.call, it.kernel
    longest = call.kernels[0]
    text = f"{shortened(longest.name)} takes {_percent(longest.share)} of the time"
    if call.percent_of_limit is not None and call.percent_of_limit <= 100:
        text += f", and the call attains {call.percent_of_limit:.0f} % of the device's limit"
    elif call.limit is not None and call.limit.bound_by == "compute" and (percent := call.percent_of_limit or 0) > MOST:
        text += f", and the call is at {percent:.0f} % of the limit of full precision, as tensor cores allow"
    if not call.names_kernels:
        return f"{text}; a profiler of the processor (`perf record`) shows where within it."
    if kernel is None:
        return f"{text}; it is a library's: replace it by a kernel of your own, or fuse it with what is around it."
    if it.counters is None:
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


def _at_limit(call: SolutionProfile) -> bool:
    return AT_LIMIT <= (call.percent_of_limit or 0.0) <= MOST


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
