"""Which bottleneck a profile shows, and what to try next, in one sentence; the first rule that fits decides.

80 % of a peak is "at the limit", and below 60 % a kernel waits for latency: rule SOLBottleneck of Nsight Compute
(Kernel Profiling Guide, SpeedOfLight). Occupancy and tail: Kernel Profiling Guide, and CUDA C++ Best Practices Guide.
Other thresholds are chosen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

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
MOST = 110.0
"""Percent of the limit above which it is other arithmetic, or caches."""
WRITTEN = frozenset({KernelOrigin.OWN, KernelOrigin.COMPILED})
"""Origins whose kernels a solution can change: rules about a kernel are for these."""


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
    """Input of the rules: the whole call, and its longest kernel unless that is a library's."""

    call: SolutionProfile
    kernel: ProfiledKernel | None

    @property
    def name(self) -> str:
        """The kernel's name, short enough for a sentence."""
        return shortened(self.kernel.name) if self.kernel is not None else "the call"


def advise(call: SolutionProfile) -> Advice:
    """Name the bottleneck of a call; every profile has an answer."""
    longest = next(iter(call.kernels), None)
    kernel = longest if longest is not None and longest.origin in WRITTEN else None
    subject = Suspect(call=call, kernel=kernel)
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
    """Fit where a kernel accesses memory more than its data need: spilled registers."""
    kernel = it.kernel
    stack, registers = (kernel.stack_bytes or 0, kernel.registers or 0) if kernel is not None else (0, 0)
    if not registers or stack <= SPILLED_SHARE * REGISTER_BYTES * registers:
        return ""
    return (
        f"{it.name} keeps {stack} bytes of each thread in local memory: {registers} registers do not hold its "
        "values. Hold fewer values at a time, or raise the limit (`__launch_bounds__`, `maxrregcount`)."
    )


def _memory_bound(it: Suspect) -> str:
    """Fit where the call's compulsory bytes move at the limit of memory."""
    advice = "it is bound by memory, at the limit. Only moving fewer bytes helps: fuse, or store less."
    return _at_limit(it, "memory", "moves its compulsory bytes", advice)


def _compute_bound(it: Suspect) -> str:
    """Fit where the call's FLOPs are computed at the limit of arithmetic."""
    advice = "it is bound by arithmetic. Only less arithmetic helps, or faster (tensor cores, fewer bits)."
    return _at_limit(it, "compute", "computes", advice)


def _at_limit(it: Suspect, bound_by: str, does: str, advice: str) -> str:
    """Write that a call is at a peak, with advice; empty if it is not."""
    limit, percent = it.call.limit, it.call.percent_of_limit or 0.0
    if limit is None or limit.bound_by != bound_by or not AT_LIMIT <= percent <= MOST:
        return ""
    return f"The call {does} at {percent:.0f} % of the measured peak: {advice}"


def _low_occupancy(it: Suspect) -> str:
    """Fit where too few blocks or warps are in flight to fill the device."""
    held = it.kernel.occupancy if it.kernel is not None else None
    if held is None:
        return ""
    filled = held.waves / -(-held.waves // 1) if 1 < held.waves < FULL_WAVES else 1.0
    if filled < TAIL:
        return (
            f"The grid of {it.name} is {held.waves:.2f} waves of blocks, so the last wave leaves most SMs idle "
            f"({_percent(filled)} of the slots are used): choose block sizes that fill whole waves, or a persistent "
            "kernel."
        )
    if held.share >= LOW_OCCUPANCY or (it.call.percent_of_limit or 0.0) >= LATENCY:
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
    return f"{text}; no rule explains it: `--ncu FILE` saves hardware counters, with advice of Nsight Compute."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
