"""The largest errors of one candidate over all checked calls."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kbench.core.model import Correctness, Finding, Mismatch
from kbench.core.values import Ratios, Ruling, worst
from kbench.numerics.elements import Difference

NOTHING = Correctness(max_abs_err=0.0, max_rel_err=0.0, contract_ratio=0.0, elements=0, calls=0)


@dataclass(slots=True)
class Tally:
    """The largest errors of all checked calls so far, and what notes say of them."""

    figures: Correctness = NOTHING
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
        self.narrow = max(self.narrow, ruling.narrow)
        self.explained = all(each.explained(factor) for each in ratios)
        known = [each for each in ratios if each.oracle is not None]
        of_call = Correctness(
            max_abs_err=max((d.largest_error for d in differences), default=0.0),
            max_rel_err=max((d.max_rel for d in differences), default=0.0),
            contract_ratio=max((each.contract for each in ratios), default=0.0),
            oracle_ratio=max((each.oracle or 0.0 for each in known), default=None),
            reference_ratio=max((each.reference or 0.0 for each in known), default=None),
            contract=ruling.contract,
            elements=sum(d.elements for d in differences),
            calls=1,
        )
        self.figures = worst(self.figures, of_call)
        if known:
            before = self.reference_errors or (0.0,) * len(ratios)
            self.reference_errors = tuple(
                max(old, each.reference or 0.0) for old, each in zip(before, ratios, strict=True)
            )

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
        """Return the figures, with those of a wrong call."""
        seeds = len(self.seeds)
        return replace(self.figures, oracle_factor=factor, wrong_elements=wrong, seeds=seeds, mismatches=mismatches)
