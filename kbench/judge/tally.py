"""The largest errors of one candidate over all checked calls."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kbench.core.model import Correctness, Finding, Mismatch
from kbench.core.values import Ratios, Ruling
from kbench.numerics.elements import Difference


@dataclass(slots=True)
class Tally:
    """The largest errors of all checked calls so far; becomes a Correctness."""

    max_abs: float = 0.0
    max_rel: float = 0.0
    contract: float = 0.0
    oracle: float | None = None
    reference: float | None = None
    kind: str = "held"
    elements: int = 0
    calls: int = 0
    seeds: set[int] = field(default_factory=set)
    scales: tuple[float, ...] = ()
    """Root mean squares of the outputs, once fp64 values of some are known."""
    explained: bool = True
    """False if rounding does not explain the error of some output of the last call."""
    reference_errors: tuple[float, ...] = ()
    """Largest error of the reference, compared with fp64, by output."""
    trivial_output_passes: dict[str, bool] = field(default_factory=dict)
    """True if zeros or a constant pass all comparisons with fp64, by the name of an output."""
    narrow: float = 0.0
    """Largest miss of rule 2 by results whose contract holds everywhere."""
    picks: int = 0
    """Largest number of indices of one output that differ and point at values as good as the reference's."""
    boundary: tuple[int, int] = (0, 0)
    """Largest number of elements of one output that are one code away at a boundary, and its number of elements."""

    def add(self, differences: Sequence[Difference], ratios: Sequence[Ratios], ruling: Ruling, factor: float) -> None:
        """Count one checked call; `factor` is the allowed multiple of the reference's own error."""
        self.calls += 1
        self.narrow = max(self.narrow, ruling.narrow)
        self.elements += sum(d.elements for d in differences)
        self.max_abs = max([self.max_abs, *(d.largest_error for d in differences)])
        self.max_rel = max([self.max_rel, *(d.max_rel for d in differences)])
        self.contract = max([self.contract, *(each.contract for each in ratios)])
        self.explained = all(each.explained(factor) for each in ratios)
        known = [each for each in ratios if each.oracle is not None]
        if known:
            self.oracle = max(self.oracle or 0.0, *(each.oracle or 0.0 for each in known))
            self.reference = max(self.reference or 0.0, *(each.reference or 0.0 for each in known))
            before = self.reference_errors or (0.0,) * len(ratios)
            self.reference_errors = tuple(
                max(old, each.reference or 0.0) for old, each in zip(before, ratios, strict=True)
            )
        if ruling.contract != "held":
            self.kind = ruling.contract

    def notes(self) -> list[Finding]:
        """Return notes about right results."""
        far = f"within the tolerance of the reference, and {self.narrow:.3g} times the allowed distance from fp64"
        ties = "indices differ from the reference's where they point at values that are equal within the tolerance"
        codes = "up to {:,} of {:,} elements are one code from the reference's, where a boundary is near".format(
            *self.boundary
        )
        found = (
            ("far_from_fp64", self.narrow, far),
            ("ties", self.picks, ties),
            ("boundary_codes", self.boundary[0], codes),
        )
        return [Finding.note(code, message) for code, is_found, message in found if is_found]

    def correctness(self, factor: float, wrong: int = 0, mismatches: tuple[Mismatch, ...] = ()) -> Correctness:
        """Freeze the tally."""
        return Correctness(
            max_abs_err=self.max_abs,
            max_rel_err=self.max_rel,
            contract_ratio=self.contract,
            oracle_ratio=self.oracle,
            reference_ratio=self.reference,
            oracle_factor=factor,
            contract=self.kind,
            elements=self.elements,
            wrong_elements=wrong,
            calls=self.calls,
            seeds=len(self.seeds),
            mismatches=mismatches,
        )
