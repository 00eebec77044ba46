"""The rule that decides whether values are right, as one pure function (design: contract and oracle)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kbench.core.model import Correctness

DECIDED = ("unattainable", "vacuous", "held")
"""Contracts of several outputs: the first of these that any output has is reported."""
FACTOR, FACTOR_PRODUCTS = 4.0, 16.0
"""Allowed multiple of the reference's own error: plain or in 16 bits, and with products (matmul, convolution)."""
DRAWS, MANY_DRAWS = 3, 8
"""Seeds of a check, calls on equal inputs, outputs that are constant, and narrow misses in a row that count; draws
where one may be right by chance, or where the reference may be inaccurate by chance, as a sum near zero is."""
COARSE_ERROR = 1.0
"""Least error, in tolerances, that a 16-bit reference is taken to have: partial results are rounded."""
UNATTAINABLE_ABOVE = 0.5
"""A reference further than this from fp64, in tolerances, leaves an honest candidate no room within the contract."""

NARROW = 4.0
"""An error of at most this many times what is allowed is narrow: a note, or chance (docs/verification.md)."""
MAX_BOUNDARY_SHARE = 1 / 128
"""Largest share of a discontinuous output that may lie one code from the reference and from fp64."""
MAX_UNKNOWN_CODES, MAX_UNKNOWN_SHARE = 4, 16e-6
"""Number, plus share, of elements that may do so where no value before the rounding is known."""
CHANCE_MISSES, CHANCE_SHARE = 2, 0.05
"""Timed calls that may miss narrowly: this number, plus this share of all timed calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratios:
    """Largest errors of one output, each in units of its tolerance; None where no oracle was computed."""

    contract: float
    """Error of the candidate, compared with the reference."""
    oracle: float | None = None
    """Error of the candidate, compared with the fp64 oracle."""
    reference: float | None = None
    """Error of the reference, compared with the fp64 oracle where it is finite."""
    overflows: bool = False
    """True if the reference is not finite at an element where the oracle is."""
    scaled: tuple[float, float] = (0.0, 0.0)
    """Errors of candidate and reference at a large output's own scale: its absolute tolerance grows with it. The
    reference's error near zero must not excuse an error elsewhere."""
    tails: tuple[tuple[float, float], ...] = ()
    """Error quantiles: the candidate's at 2⁻ᵏ, the reference's at 2⁻⁽ᵏ⁺¹⁾, for k = 1, 2, 3, ... One bad element must
    not excuse all others."""
    change: tuple[float, float] = (0.0, 0.0)
    """Errors of candidate and reference in the change of an input, where the output is that input but for a small
    change."""
    missed: float | None = None
    """The largest distance from the oracle of the elements that miss the contract; None where one is unknown."""
    coarse: bool = False
    """True for 16 bits: two honest results near zero are further apart than the contract allows."""
    vacuous: bool = False
    """Zeros, a constant or a copy of the input would pass the contract."""

    def near_fp64(self, factor: float) -> bool:
        """Return whether the candidate is as near to the oracle as the reference's own error allows."""
        return self.oracle is not None and all(ours <= allowed for ours, allowed, _ in self.bounds(factor))

    def bounds(self, factor: float) -> list[tuple[float, float, str]]:
        """Return errors compared with the oracle, the allowed error of each, and the share of the elements."""
        factor = min(factor, FACTOR) if self.coarse else factor
        own = max(self.reference or 0.0, COARSE_ERROR if self.coarse else 0.0)
        pairs = [((self.oracle or 0.0, own), ""), (self.scaled, ""), (self.change, " in the change of an input")]
        pairs += [(pair, f" in 1 of {2**power} values") for power, pair in enumerate(self.tails, start=1)]
        return [(ours, max(1.0, factor * theirs), where) for (ours, theirs), where in pairs]

    def narrow_miss(self, factor: float) -> float:
        """Return by how much rule 2 is missed if that is only a note beside a contract that holds everywhere; else 0.

        A change of an input has no such note: its contract does not cover the change.
        """
        excess = max(ours / allowed for ours, allowed, _ in self.bounds(factor))
        changed = self.change[0] > max(1.0, factor * self.change[1])
        narrow = self.contract <= 1 and not self.vacuous and not changed and 1 < excess <= NARROW
        return excess if narrow else 0.0

    def explained(self, factor: float) -> bool:
        """Return whether rounding explains the error: by the oracle if there is one, else by the contract."""
        return self.contract <= 1 if self.oracle is None else self.near_fp64(factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """Decision about values: right or wrong, the rule that decided, and the reason."""

    right: bool
    contract: str
    """`held`, `unattainable` or `vacuous`."""
    reason: str
    allowed: float = 1.0
    """Tolerances that were allowed, by the rule that decided."""
    excess: float = 0.0
    """Largest error of wrong values, in units of the allowed error."""
    output: int = 0
    """Index of the output, the first one that is wrong."""
    narrow: float = 0.0
    """The excess by which rule 2 is missed beside a contract that holds everywhere; else 0."""


def codes_are_right(elements: int, differing: int, explained: int, *, reference: int = 0, known: bool = True) -> bool:
    """Return whether elements of a discontinuous output that differ from reference and fp64 are explained and few.

    `explained`: one code away, with a boundary near the value before the rounding, if that is `known`; `reference`:
    elements in which the reference itself differs from fp64.
    """
    share = MAX_BOUNDARY_SHARE * elements
    unknown = min(share, MAX_UNKNOWN_CODES + MAX_UNKNOWN_SHARE * elements)
    return differing == explained <= (max(1.0, share, FACTOR * reference) if known else unknown)


def rule_all(ratios: Sequence[Ratios], factor: float) -> Ruling:
    """Apply both rules to each output: one that is only rounding must not make room for another."""
    of_each = enumerate(ratios or [Ratios(contract=0.0)])
    rulings = [replace(rule(of_one, factor), output=number) for number, of_one in of_each]
    wrong = next((ruling for ruling in rulings if not ruling.right), None)
    if wrong is not None:
        return replace(wrong, excess=max(ruling.excess for ruling in rulings))
    first = min(rulings, key=lambda ruling: DECIDED.index(ruling.contract))
    return replace(first, narrow=max(ruling.narrow for ruling in rulings))


def rule(ratios: Ratios, factor: float) -> Ruling:
    """Apply both rules: the contract (ratio <= 1) and the oracle (ratio <= max(1, factor * reference's own)).

    The oracle alone decides where the reference misses the contract or trivial outputs meet it; where there is none,
    the contract decides. An element that misses the contract is right within the tolerance of the oracle. A narrow miss
    of the oracle's rule beside a contract that holds everywhere is right, with a note.
    """
    if ratios.oracle is None:
        contract = "vacuous" if ratios.vacuous else "held"
        return _contract(ratios.contract, contract)
    kind = _kind(ratios)
    narrow = ratios.narrow_miss(factor) if kind == "held" else 0.0
    if not narrow and not ratios.near_fp64(factor):
        ours, allowed, share = max(ratios.bounds(factor), key=lambda bound: bound[0] / bound[1])
        # The oracle may know a few entries only; the contract is of all.
        excess = max(ours / allowed, ratios.contract if kind == "held" else 0.0)
        return Ruling(right=False, contract=kind, reason=_too_far(ours, allowed, share), allowed=allowed, excess=excess)
    if kind == "held" and ratios.contract > 1 and ratios.missed is not None and ratios.missed <= 1:
        reason = "elements further than the tolerance from the reference are within it of fp64"
        return Ruling(right=True, contract="unattainable", reason=reason)
    if kind == "held":
        return replace(_contract(ratios.contract, kind), narrow=narrow)
    if kind == "unattainable":
        reason = f"the reference itself is {ratios.reference:.3g} tolerances from fp64, so the fp64 check decided"
    else:
        reason = "zeros, the mean or a copied input would also pass 1e-5, so the fp64 check decided"
    return Ruling(right=True, contract=kind, reason=reason)


def may_be_chance(excess: float, misses: int, calls: int) -> bool:
    """Return whether a miss by `excess` is narrow, and `misses` such misses in `calls` timed calls are few.

    One draw of hundreds is badly conditioned, and then two honest results are further apart than the contract allows.
    A solution that computes less in these few calls gains nothing: the reported time is that of most calls.
    """
    return excess <= NARROW and misses <= CHANCE_MISSES + CHANCE_SHARE * calls


def _kind(ratios: Ratios) -> str:
    inaccurate = ratios.overflows or (ratios.reference or 0.0) > UNATTAINABLE_ABOVE
    if inaccurate or (ratios.coarse and ratios.contract > 1):
        return "unattainable"
    return "vacuous" if ratios.vacuous else "held"


def _contract(ratio: float, kind: str) -> Ruling:
    if ratio <= 1:
        return Ruling(right=True, contract=kind, reason=f"{ratio:.3g} of the tolerance")
    if not math.isfinite(ratio):
        reason = "values differ from the reference's where only equal ones are right"
    else:
        reason = f"{ratio:.3g} times the tolerance from the reference"
    return Ruling(right=False, contract=kind, reason=reason, excess=ratio)


def _too_far(ours: float, allowed: float, share: str) -> str:
    if not math.isfinite(ours):
        return f"not finite where fp64 is finite, or the reverse{share}"
    limit = f", where {allowed:.3g} times is allowed" if allowed > 1 else ""
    return f"{ours:.3g} times the tolerance from fp64{share}{limit}"


def worst(one: Correctness, other: Correctness) -> Correctness:
    """Join the results of two processes' checks."""
    pairs = ((one.oracle_ratio, other.oracle_ratio), (one.reference_ratio, other.reference_ratio))
    oracle, reference = (max((ratio for ratio in pair if ratio is not None), default=None) for pair in pairs)
    return replace(
        one,
        max_abs_err=max(one.max_abs_err, other.max_abs_err),
        max_rel_err=max(one.max_rel_err, other.max_rel_err),
        contract_ratio=max(one.contract_ratio, other.contract_ratio),
        oracle_ratio=oracle,
        reference_ratio=reference,
        contract=next(kind for kind in (*DECIDED, one.contract) if kind in {one.contract, other.contract}),
        elements=_together(one.elements, other.elements),
        calls=_together(one.calls, other.calls),
        seeds=_together(one.seeds, other.seeds),
    )


def _together(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)
