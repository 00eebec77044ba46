"""What is said of outputs whose values are wrong."""

import math

from kbench.core.values import Ruling
from kbench.numerics import elements


def describe_wrong(differences: list[elements.Difference], ruling: Ruling, tolerance: elements.Tolerance) -> str:
    """Say where outputs are wrong, how many elements, how far off, and how far off they may be."""
    wrong, total = sum(d.wrong for d in differences), sum(d.elements for d in differences)
    poisoned = sum(d.poisoned for d in differences)
    parts = []
    mismatch = next((m for d in differences for m in d.mismatches), None)
    if mismatch is not None:
        index = ", ".join(map(str, mismatch.index))
        parts.append(f"{mismatch.output}[{index}]: got {mismatch.got:.9g}, want {mismatch.want:.9g}")
        parts.append(f"{wrong:,} of {total:,} elements wrong")
    worst = next((d.ratio for d in differences if d.ratio > 1), 0.0)
    if wrong and not tolerance.exact and math.isfinite(worst):
        parts.append(f"the worst off by {worst:.3g} times the allowed {in_words(tolerance)}")
    if not wrong or (ruling.allowed > 1 and not tolerance.exact):
        scaled = "" if tolerance.exact else f" (tolerance: {in_words(tolerance, near_zero=True)})"
        parts.append(f"{ruling.reason}{scaled}")
    if poisoned:
        parts.append(f"{poisoned:,} elements were never written")
    return "; ".join(parts)


def in_words(tolerance: elements.Tolerance, *, near_zero: bool = False) -> str:
    """Return what is allowed, as a formula: `1e-5 + 1e-5·|want|`; `near_zero`: of the distance from fp64."""
    least = tolerance.near_zero(1.0) if near_zero else tolerance.atol
    scale = (" · rms" if tolerance.coarse else " · min(1, rms)") if near_zero else ""
    atol, rtol = (f"{number:g}".replace("e-0", "e-") for number in (least, tolerance.rtol))
    return f"{atol}{scale} + {rtol}·|want|"
