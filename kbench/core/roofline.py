"""The limit of this device for a call: compulsory bytes and FLOPs over measured peaks."""

from dataclasses import dataclass

from kbench.core.model import Cost, Peaks

NS_PER_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The shortest time that the device allows for a cost, with traffic and arithmetic fully overlapped."""

    limit_ns: float
    bound_by: str
    """`memory` or `compute`."""


def arithmetic_peaks(peaks: Peaks) -> dict[str, float]:
    """Return the measured rates of arithmetic by its precision."""
    rates = {"fp32": peaks.fp32_flops_per_s, "tf32": peaks.tf32_flops_per_s, "bf16": peaks.bf16_flops_per_s}
    return {name: rate for name, rate in rates.items() if rate is not None}


def limit(cost: Cost, peaks: Peaks, *, tf32: bool = False) -> Limit:
    """Compute the limit of one call; with `tf32`, fp32 products run at the TF32 peak.

    FLOPs of a precision without a peak are taken at the fastest one. Raises ValueError if a peak is not positive.
    """
    known = arithmetic_peaks(peaks)
    if min(peaks.copy_bytes_per_s, *known.values()) <= 0:
        raise ValueError("a peak must be positive")
    known["fp16"] = known.get("bf16", max(known.values()))
    if tf32:
        known["fp32"] = max(known["fp32"], known.get("tf32", 0.0))
    by_precision = cost.flops_by_precision or {"fp32": cost.flops}
    fastest = max(known.values())
    memory_ns = cost.dram_bytes / peaks.copy_bytes_per_s * NS_PER_S
    compute_ns = sum(flops / known.get(name, fastest) for name, flops in by_precision.items()) * NS_PER_S
    return Limit(limit_ns=max(memory_ns, compute_ns), bound_by="memory" if memory_ns >= compute_ns else "compute")
