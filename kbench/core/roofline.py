"""The limit of this device for a call: compulsory bytes and FLOPs over measured peaks."""

from collections.abc import Mapping
from dataclasses import dataclass

from kbench.core.model import Cost, Peaks

NS_PER_S = 1e9
SPLIT_PRODUCTS = 3
"""Products of short parts that make one fp32 product with an error below 1e-5. Each factor is split into a large and a
small part; small times small is left out (Ootomo and Yokota, "Recovering single precision accuracy from
Tensor Cores while surpassing the FP32 theoretical peak performance", IJHPCA 2022)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The shortest time that the device allows for a cost, with traffic and arithmetic fully overlapped."""

    limit_ns: float
    bound_by: str
    """`memory` or `compute`."""
    rate: str
    """The peak that decides: `memory`, or the arithmetic, as `fp32`, `bf16` or `fp16 x 3` (of a split product)."""


def arithmetic_peaks(peaks: Peaks) -> dict[str, float]:
    """Return the measured rates of arithmetic by its precision, in FLOP/s."""
    rates = {"fp32": peaks.fp32_flops_per_s, "tf32": peaks.tf32_flops_per_s, "bf16": peaks.bf16_flops_per_s}
    return {name: rate for name, rate in rates.items() if rate is not None}


def limit(cost: Cost, peaks: Peaks, *, tf32: bool = False) -> Limit:
    """Compute the limit of one call, with each precision at the best rate that reaches the tolerance.

    An fp32 product runs on fp32 units, or as SPLIT_PRODUCTS products of TF32 or fp16 parts; with `tf32` as one of TF32.
    fp16 has the rate of bf16. FLOPs of a precision without a peak are taken at the fastest one. Raises ValueError if a
    peak is not positive.
    """
    known = arithmetic_peaks(peaks)
    if min(peaks.copy_bytes_per_s, *known.values()) <= 0:
        raise ValueError("a peak must be positive")
    known["fp16"] = known.get("bf16", max(known.values()))
    by_precision = cost.flops_by_precision or {"fp32": cost.flops}
    taken = {name: _best_rate(name, known, tf32=tf32) for name, flops in by_precision.items() if flops}
    memory_ns = cost.dram_bytes / peaks.copy_bytes_per_s * NS_PER_S
    compute_ns = sum(by_precision[name] / rate for name, (_, rate) in taken.items()) * NS_PER_S
    if memory_ns >= compute_ns:
        return Limit(limit_ns=memory_ns, bound_by="memory", rate="memory")
    rates = ", ".join(dict.fromkeys(name for name, _ in taken.values()))
    return Limit(limit_ns=compute_ns, bound_by="compute", rate=rates)


def _best_rate(precision: str, known: Mapping[str, float], *, tf32: bool) -> tuple[str, float]:
    """Return the name of the arithmetic that computes a precision fastest, and its rate."""
    if precision != "fp32":
        return precision, known.get(precision, max(known.values()))
    split = [
        (f"{name} x {SPLIT_PRODUCTS}", known[name] / SPLIT_PRODUCTS) for name in ("tf32", "fp16") if "tf32" in known
    ]
    whole = [("tf32", known["tf32"])] if tf32 and "tf32" in known else []
    return max([("fp32", known["fp32"]), *split, *whole], key=lambda one: one[1])
