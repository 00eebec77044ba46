"""Which bottleneck a profile shows, and what to try next, in one sentence; the first rule that fits decides.

80 % of a peak is "at the limit", and below 60 % of both memory and SM a kernel waits for latency: rule SOLBottleneck of
Nsight Compute (Kernel Profiling Guide, SpeedOfLight). Occupancy, tail and coalescing: Kernel Profiling Guide, and CUDA
C++ Best Practices Guide. Other thresholds are chosen. All ten of `tests/bottlenecks.py --ncu` are named right (H200).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

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


FittingRule = tuple[Bottleneck, str]
"""A rule that fits, and the sentence of the advice. Rules are yielded in the order in which they decide."""


def advise(call: SolutionProfile) -> Advice:
    """Name the bottleneck of a call; every profile has an answer."""
    longest = next(iter(call.kernels), None)
    kernel = longest if longest is not None and longest.origin in WRITTEN else None
    counters = heaviest(call.counters, kernel.name) if kernel is not None else None
    subject = Suspect(call=call, kernel=kernel, counters=counters)
    rules = chain(_of_the_call(call), _of_accesses(subject), _at_the_limit(subject), _of_latency(subject))
    for bottleneck, sentence in rules:
        return Advice(bottleneck=bottleneck, sentence=sentence)
    return Advice(bottleneck=Bottleneck.UNEXPLAINED, sentence=_unexplained(subject))


def shortened(name: str, most: int = 60) -> str:
    """Return a kernel's name, cut where it is long."""
    return name if len(name) <= most else f"{name[: most - 3]}..."


def _of_the_call(call: SolutionProfile) -> Iterator[FittingRule]:
    """Yield what the call shows without counters: what ran, whose it was, and whether the device had nothing to do."""
    if not call.kernels:
        told = "The profiler saw no kernel: nothing ran on the device, or CUPTI is missing or in use by another tool."
        yield Bottleneck.NOTHING_SEEN, told
    if call.is_fallback:
        ran = "a shared library of its own" if not call.names_kernels else "a kernel of its own"
        told = (
            f"The source declares kernels of its own, but the call never used {ran}: it fell back to libraries. "
            "Look for a caught exception or a condition around the load."
        )
        yield Bottleneck.FALLBACK, told
    if call.names_kernels and call.host.synchronisations and call.idle_share >= WAITS:
        times = "once" if call.host.synchronisations == 1 else f"{call.host.synchronisations} times"
        told = (
            f"The host waits for the device {times} within the call, and the device then idles for "
            f"{_percent(call.idle_share)} of it: keep `.item()`, `.cpu()` and synchronisation out of `forward`."
        )
        yield Bottleneck.SYNCHRONISING, told
    if call.names_kernels and call.idle_share >= IDLE:
        count = round(sum(kernel.launches for kernel in call.kernels))
        told = (
            f"The device idles for {_percent(call.idle_share)} of the call: its kernels ({count}, "
            f"{call.busy_ns / max(1, count) / 1e3:.3g} µs on average) are over before the host submits the next. "
            "Fuse kernels, or capture the call in a CUDA graph."
        )
        yield Bottleneck.LAUNCH_BOUND, told
    in_python = call.share_of(KernelOrigin.PYTHON)
    if in_python >= IDLE:
        count = sum(kernel.launches for kernel in call.kernels if kernel.origin is KernelOrigin.LIBRARY)
        told = (
            f"Python takes {_percent(in_python)} of the call, between {count} calls of operators: use fewer and larger "
            "ones, or `torch.compile`."
        )
        yield Bottleneck.PYTHON_BOUND, told
    share = call.share_of(KernelOrigin.LIBRARY, KernelOrigin.COPY)
    if share + in_python >= LIBRARY_SHARE:
        longest = next(kernel for kernel in call.kernels if kernel.origin is not KernelOrigin.PYTHON)
        told = (
            f"{_percent(share)} of the time is spent in libraries, the largest part in {shortened(longest.name)} "
            f"({_percent(longest.share)}): a kernel of your own has to replace or fuse that."
        )
        yield Bottleneck.LIBRARY_ONLY, told


def _of_accesses(it: Suspect) -> Iterator[FittingRule]:
    """Yield what the kernel does with memory that it need not do."""
    kernel, seen = it.kernel, it.counters
    stack, registers = (kernel.stack_bytes or 0, kernel.registers or 0) if kernel is not None else (0, 0)
    if registers and stack > SPILLED_SHARE * REGISTER_BYTES * registers:
        told = (
            f"{it.name} keeps {stack} bytes of each thread in local memory: {registers} registers do not hold its "
            "values. Hold fewer values at a time, or raise the limit (`__launch_bounds__`, `maxrregcount`)."
        )
        yield Bottleneck.SPILLS, told
    if seen is None:
        return
    conflicts = seen.bank_conflict_percent or 0.0
    hidden = max(seen.memory_percent or 0.0, seen.tensor_percent or 0.0) >= AT_LIMIT  # behind what is at the limit
    waits = seen.stall in SHARED_STALLS or conflicts >= MANY_CONFLICTS
    if conflicts >= CONFLICTS and waits and not hidden:
        told = (
            f"{conflicts:.0f} % of the accesses of {it.name} to shared memory are repeats because of bank conflicts: "
            "pad or swizzle the tile so that the threads of a warp use 32 different banks."
        )
        yield Bottleneck.BANK_CONFLICTS, told
    matters = (seen.sm_percent or 0.0) < AT_LIMIT or seen.stall in {"long_scoreboard", "lg_throttle"}
    if seen.sector_use_percent is not None and seen.sector_use_percent < SECTOR_USE and matters:
        told = (
            f"{it.name} uses {seen.sector_use_percent:.0f} % of the bytes that its global accesses move: they are not "
            "coalesced. Let neighbouring threads access neighbouring addresses, if need be through shared memory."
        )
        yield Bottleneck.UNCOALESCED, told


def _at_the_limit(it: Suspect) -> Iterator[FittingRule]:
    """Yield the limit of the device that the kernel is at by its counters; without these, that the call is at."""
    seen, call = it.counters, it.call
    percent = call.percent_of_limit or 0.0
    bound_by = call.limit.bound_by if call.limit is not None and AT_LIMIT <= percent <= MOST else ""
    measured = ""
    if seen is not None and seen.memory_percent is not None:
        if seen.memory_percent >= AT_LIMIT:
            measured = f"{it.name} uses {seen.memory_percent:.0f} % of the DRAM's peak"
    elif bound_by == "memory":
        measured = f"The call moves its compulsory bytes at {percent:.0f} % of the measured peak"
    if measured:
        told = "it is bound by memory, at the limit. Only moving fewer bytes helps: fuse, or store less."
        yield Bottleneck.MEMORY_BOUND, f"{measured}: {told}"
    if seen is not None and seen.sm_percent is not None:
        pipes = {"tensor cores'": seen.tensor_percent or 0.0, "SMs'": seen.sm_percent}
        pipe = next((pipe for pipe, used in pipes.items() if used >= AT_LIMIT), None)
        measured = f"{it.name} uses {pipes[pipe]:.0f} % of the {pipe} peak" if pipe is not None else ""
    elif bound_by == "compute":
        measured = f"The call computes at {percent:.0f} % of the measured peak"
    if measured:
        told = "it is bound by arithmetic. Only less arithmetic helps, or faster (tensor cores, fewer bits)."
        yield Bottleneck.COMPUTE_BOUND, f"{measured}: {told}"


def _of_latency(it: Suspect) -> Iterator[FittingRule]:
    """Yield what leaves the device waiting: too little in flight within a kernel, or one kernel after another."""
    held, seen, call = it.kernel.occupancy if it.kernel is not None else None, it.counters, it.call
    filled = held.waves / -(-held.waves // 1) if held is not None and 1 < held.waves < FULL_WAVES else 1.0
    if held is not None and filled < TAIL:
        told = (
            f"The grid of {it.name} is {held.waves:.2f} waves of blocks, so the last wave leaves most SMs idle "
            f"({_percent(filled)} of the slots are used): choose block sizes that fill whole waves, or a persistent "
            "kernel."
        )
        yield Bottleneck.TAIL_EFFECT, told
    near_limit = call.percent_of_limit or 0.0
    if seen is not None:
        near_limit = max(seen.memory_percent or 0.0, seen.sm_percent or 0.0, seen.tensor_percent or 0.0)
    if held is not None and held.share < LOW_OCCUPANCY and near_limit < LATENCY:
        told = (
            f"{it.name} fills {_percent(held.share)} of an SM's warps, limited by its {held.limiter}, which leaves too "
            f"few to hide latency: {OCCUPANCY_LEVERS[held.limiter]}."
        )
        yield Bottleneck.LOW_OCCUPANCY, told
    if seen is None:
        passes = 100 / call.percent_of_limit if call.percent_of_limit else 0.0
        passing = sum(kernel.share >= PASS for kernel in call.kernels)
        by_memory = call.limit is not None and call.limit.bound_by == "memory"
        if by_memory and 100 / AT_LIMIT < passes <= passing:
            told = (
                f"{passing} kernels in turn take {passes:.2f} times as long as moving the compulsory bytes once: data "
                "that several of them read or write explains that. Fuse them; `--ncu` shows whether memory limits each."
            )
            yield Bottleneck.SEVERAL_PASSES, told
    elif (
        seen.memory_percent is not None
        and seen.sm_percent is not None
        and max(seen.memory_percent, seen.sm_percent) < LATENCY
        and (seen.stall_percent or 0.0) >= STALLED
    ):
        lever = STALL_LEVERS.get(seen.stall, "read the stall in Nsight Compute's source view")
        told = (
            f"{it.name} waits: memory {seen.memory_percent:.0f} %, SM {seen.sm_percent:.0f} %, and "
            f"{seen.stall_percent:.0f} % of its warps' time is the stall `{seen.stall}`. Next: {lever}."
        )
        yield Bottleneck.LATENCY_BOUND, told


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


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
