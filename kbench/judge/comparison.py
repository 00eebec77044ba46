"""One call's outputs compared with the reference and with fp64, and the largest errors of all checked calls."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from kbench.core.model import Correctness, Finding, Mismatch
from kbench.core.values import FACTOR, Ratios, Ruling, rule, rule_all, worst
from kbench.judge.reference.expected import Expected, small_changes
from kbench.judge.reference.oracle import Pieces, has_all_misses, worst_of_entries
from kbench.judge.reference.reference import Reference
from kbench.judge.refusal import describe_wrong, failed_launch
from kbench.numerics import elements, tails

SMALL = 0.5
"""Outputs with a smaller root mean square are compared in every call with a tolerance of their own scale."""
NOTHING = Correctness(max_abs_err=0.0, max_rel_err=0.0, contract_ratio=0.0, elements=0, calls=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Values in fp64 for one set of arguments, and what is known about the outputs."""

    pieces: Pieces | None
    """Outputs in fp64; None if none could be computed."""
    vacuous: tuple[bool, ...]
    """True for each output for which a trivial one passes the contract."""
    scales: tuple[float, ...]
    """Root mean squares of the outputs; 1 for outputs that are compared exactly."""
    least_reference_errors: tuple[float, ...] = ()
    """The reference's error of each output on other draws like this one."""
    has_all_misses: bool = False
    """True if fp64 is known for all elements that miss the contract."""

    @classmethod
    def of(cls, reference: Reference, expected: Expected, outputs: Sequence[Tensor] | None = None) -> "Truth":
        """Compute fp64 outputs and scales; if large `outputs` are given, for the entries that they miss most."""
        inputs = [a for a in expected.recalled() if hasattr(a, "untyped_storage")]
        wanted = [(want, reference.tolerance(want)) for want in expected.judged.values()]
        found = [elements.vacuous_and_rms(want, inputs, tolerance) for want, tolerance in wanted]
        is_cut = outputs is not None and not reference.is_small(expected)
        scales = tuple(scale for _, scale in found)
        worst = worst_of_entries(outputs or (), expected, [t for _, t in wanted], scales) if is_cut else None
        pieces = reference.oracle(expected, worst)
        return cls(
            pieces=pieces,
            vacuous=tuple(is_vacuous for is_vacuous, _ in found),
            scales=scales,
            has_all_misses=pieces is not None and (worst is None or has_all_misses(pieces, worst)),
        )

    @property
    def is_whole(self) -> bool:
        """True if no further entries can be computed: all were, or the model does not run in fp64."""
        return self.pieces is None or all(index is ... for index, _ in self.pieces)

    def ratios(
        self,
        differences: Sequence[elements.Difference],
        outputs: Sequence[Tensor],
        expected: Expected,
        reference: Reference,
    ) -> list[Ratios]:
        """Return the errors of outputs, compared with the reference (`differences`) and with fp64."""
        found = [Ratios(contract=d.ratio, vacuous=v) for d, v in zip(differences, self.vacuous, strict=True)]
        for index, exact in self.pieces or ():
            for number, (got, want, double) in enumerate(zip(outputs, expected.judged.values(), exact, strict=True)):
                tolerance = reference.tolerance(want)
                if tolerance.exact or not (double.dtype.is_floating_point or double.dtype == torch.complex128):
                    continue
                found[number] = against_oracle(found[number], got[index], want[index], double, tolerance)
                if self.has_all_misses and found[number].contract > 1 and not tolerance.coarse:
                    scale = tolerance.near_zero(elements.rms(double))
                    missed = elements.worst_miss(got[index], want[index], double, tolerance, scale)
                    found[number] = replace(found[number], missed=max(missed, found[number].missed or 0.0))
                if index is ... and not tolerance.coarse and number in reference.steps:
                    change = change_errors(expected.recalled(), got, want, double, tolerance)
                    found[number] = replace(found[number], change=change)
        return [
            replace(each, reference=max(own, each.reference or 0.0), scaled=(each.scaled[0], max(own, each.scaled[1])))
            for each, own in zip(found, self.least_reference_errors or (0.0,) * len(found), strict=True)
        ]

    def furthest(self, output: Tensor, number: int, tolerance: elements.Tolerance, name: str) -> tuple[Mismatch, ...]:
        """Return the place of an output that is furthest from fp64, as a mismatch; empty if fp64 is not known."""
        found: dict[float, Mismatch] = {}
        for index, exact in self.pieces or ():
            got, oracle = output[index], exact[number]
            errors = elements.errors(got, oracle, tolerance, tolerance.near_zero(self.scales[number]))
            if errors.numel():
                worst = errors.max()
                (one,) = elements.mismatches(0, got, oracle, errors == worst, name, oracle.shape, most=1)
                found[worst.item()] = one if index is ... else replace(one, index=(index[one.index[0]], *one.index[1:]))
        return (found[max(found)],) if found else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCall:
    """The errors of one call's outputs, and the ruling about them."""

    reference: Reference
    expected: Expected
    differences: Sequence[elements.Difference]
    ratios: Sequence[Ratios]
    ruling: Ruling
    truth: Truth | None
    picks: int = 0
    """Largest number of indices of one output that differ and point at values as good as the reference's."""
    boundary: tuple[int, int] = (0, 0)
    """Largest number of elements of one output that are one code away at a boundary, and its number of elements."""

    @property
    def is_rounding(self) -> bool:
        """True if rounding explains the error of each output, and no error is infinite."""
        return all(each.explained(self.reference.factor) and math.isfinite(each.contract) for each in self.ratios)

    @property
    def figures(self) -> Correctness:
        """The largest errors, as of one call."""
        known = [each for each in self.ratios if each.oracle is not None]
        return Correctness(
            max_abs_err=max((d.largest_error for d in self.differences), default=0.0),
            max_rel_err=max((d.max_rel for d in self.differences), default=0.0),
            contract_ratio=max((each.contract for each in self.ratios), default=0.0),
            oracle_ratio=max((each.oracle or 0.0 for each in known), default=None),
            reference_ratio=max((each.reference or 0.0 for each in known), default=None),
            contract=self.ruling.contract,
            elements=sum(d.elements for d in self.differences),
            calls=1,
        )

    @property
    def wrong(self) -> list[elements.Difference]:
        """The differences of the outputs that miss the contract."""
        return [d for d in self.differences if d.ratio > 1]

    def describe(self, launch_error: str) -> str:
        """Describe wrong outputs, the allowed error, and the error of a launch that nobody checked."""
        pairs = list(zip(self.differences, map(self.reference.tolerance, self.expected.judged.values()), strict=True))
        wrong = [(d, tolerance) for d, tolerance in pairs if d.ratio > 1] or [pairs[self.ruling.output]]
        return failed_launch(launch_error) + describe_wrong([d for d, _ in wrong], self.ruling, wrong[0][1])

    def trivial_passes(self, number: int, want: Tensor) -> bool:
        """Return whether zeros, or one value everywhere, are right for an output on these inputs too."""
        tolerance, factor = self.reference.tolerance(want), self.reference.factor
        if self.truth is None or tolerance.exact or rule(self.ratios[number], factor).contract == "held":
            return False  # only equal values are right, or the contract decides
        for value in (want.new_zeros(()), elements.mean(want)):
            got, found = value.expand(want.shape), Ratios(contract=math.inf, vacuous=True)
            for index, exact in self.truth.pieces or ():
                found = against_oracle(found, got[index], want[index], exact[number], tolerance)
            if self.truth.pieces is None or rule(found, factor).right:
                return True
        return False


@dataclass(slots=True)
class Tally:
    """The largest errors of all right calls so far, and what notes say of them."""

    figures: Correctness = NOTHING
    seeds: set[int] = field(default_factory=set)
    scales: tuple[float, ...] = ()
    """Root mean squares of the outputs, once fp64 values of some are known."""
    reference_errors: tuple[float, ...] = ()
    """Largest error of the reference, compared with fp64, by output."""
    trivial_output_passes: dict[str, bool] = field(default_factory=dict)
    """True if zeros or a constant pass all comparisons with fp64, by the name of an output."""
    narrow: float = 0.0
    """Largest miss of rule 2 by results whose contract holds everywhere."""
    picks: int = 0
    boundary: tuple[int, int] = (0, 0)

    def add(self, call: CheckedCall) -> None:
        """Count one checked call that is right."""
        self.figures = worst(self.figures, call.figures)
        self.narrow = max(self.narrow, call.ruling.narrow)
        self.picks, self.boundary = max(self.picks, call.picks), max(self.boundary, call.boundary)
        self.scales = self.scales if call.truth is None else call.truth.scales
        for number, (name, want) in enumerate(call.expected.judged.items()):
            if call.truth is not None and want.numel() and self.trivial_output_passes.get(name, True):
                self.trivial_output_passes[name] = call.trivial_passes(number, want)
        if any(each.oracle is not None for each in call.ratios):
            own = [each.reference or 0.0 for each in call.ratios]
            self.reference_errors = tuple(map(max, self.reference_errors or own, own))

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

    def correctness(self, factor: float, wrong: CheckedCall | None = None) -> Correctness:
        """Return the figures, with those of a `wrong` call."""
        figures = replace(self.figures, oracle_factor=factor, seeds=len(self.seeds))
        if wrong is None:
            return figures
        return replace(
            worst(figures, wrong.figures),
            wrong_elements=sum(d.wrong for d in wrong.wrong),
            mismatches=tuple(m for d in wrong.wrong for m in d.mismatches),
        )


def compare(
    reference: Reference, outputs: Sequence[Tensor], expected: Expected, truth: Truth | None, known: Tally
) -> CheckedCall:
    """Compare outputs with the reference's, and with fp64 if that is given, the contract misses, or it is in doubt.

    `known` has the figures of earlier calls.
    """
    names, wanted = list(expected.judged), list(expected.judged.values())
    tolerances, found = list(map(reference.tolerance, wanted)), list(outputs)
    differences = list(map(elements.compare, outputs, wanted, tolerances, names))
    missed = [n for n, d in enumerate(differences) if d.ratio > 1]
    if missed and (truth is None or not truth.is_whole):
        truth = Truth.of(reference, expected, outputs)
    elif truth is None and _doubtful(outputs, wanted, tolerances, known, reference.factor):
        truth = Truth.of(reference, expected)
    boundaries, picks, boundary = functools.cache(lambda: reference.boundaries(expected)), 0, (0, 0)
    for n in missed:
        if tolerances[n].exact or (truth is not None and truth.is_whole and reference.decides):
            found[n], good, codes = boundaries().near(n, found[n], wanted[n], tolerances[n])
            picks, boundary = max(picks, good), max(boundary, (codes, differences[n].elements))
            differences[n] = elements.compare(found[n], wanted[n], tolerances[n], names[n])
    ratios = [Ratios(contract=d.ratio) for d in differences]
    if truth is not None:
        ratios = truth.ratios(differences, found, expected, reference)
    ruling = rule_all(ratios, reference.factor)
    n = ruling.output
    if truth is not None and not ruling.right and all(d.ratio <= 1 for d in differences):
        differences[n] = replace(differences[n], mismatches=truth.furthest(found[n], n, tolerances[n], names[n]))
    return CheckedCall(
        reference=reference,
        expected=expected,
        differences=differences,
        ratios=ratios,
        ruling=ruling,
        truth=truth,
        picks=picks,
        boundary=boundary,
    )


def _doubtful(
    outputs: Sequence[Tensor],
    wanted: Sequence[Tensor],
    tolerances: Sequence[elements.Tolerance],
    known: Tally,
    factor: float,
) -> bool:
    """Return whether small outputs differ by more than the oracle rule allows, though they pass the contract.

    Zeros may meet the contract, too. The distance of two values is at most the sum of their allowed errors, so the
    truth is not computed for every call.
    """
    each = zip(outputs, wanted, tolerances, known.scales, known.reference_errors, strict=False)
    return any(
        elements.compare(got, want, replace(tolerance, atol=tolerance.near_zero(scale))).ratio
        > max(1.0, factor * own) + own
        for got, want, tolerance, scale, own in each
        if not tolerance.exact and scale <= SMALL
    )


def change_errors(
    arguments: list[Any], got: Tensor, want: Tensor, oracle: Tensor, tolerance: elements.Tolerance
) -> tuple[float, float]:
    """Compare the change of an input with fp64, if an output is that input but for a small change.

    Returns the errors of candidate and reference, in units of atol `rms of the change` + rtol |change| + FACTOR eps
    |output|: the step of an optimiser is lost in the tolerance of its parameter.
    """
    worst = (0.0, 0.0)
    for x, apart in small_changes(arguments, want):
        scale = min(1.0, apart * elements.rms(want))
        ours, theirs = (_change_error(t, x, oracle, tolerance, scale) for t in (got, want))
        worst = max(worst[0], ours), max(worst[1], theirs)
    return worst


def _change_error(output: Tensor, x: Tensor, oracle: Tensor, tolerance: elements.Tolerance, scale: float) -> float:
    worst = [torch.zeros((), dtype=torch.float64, device=oracle.device)]
    rounding = FACTOR * torch.finfo(output.dtype).eps
    for (_, c, o), (_, before, _) in zip(elements.chunks(output, oracle), elements.chunks(x, oracle), strict=True):
        allowed = tolerance.atol * scale + tolerance.rtol * (o - before).abs() + rounding * o.abs()
        worst.append(torch.where(c == o, 0.0, (c - o).abs() / allowed).nan_to_num(torch.inf).max())
    return float(torch.stack(worst).max().item())


def against_oracle(before: Ratios, got: Tensor, want: Tensor, oracle: Tensor, tolerance: elements.Tolerance) -> Ratios:
    """Add the errors of one piece of an output to its ratios, with two reads of the device, which others may share.

    How errors are distributed matters only where the largest is above the tolerance.
    """
    overflows, scale = elements.overflow_and_rms(want, oracle)
    atols = [tolerance.near_zero(scale)]
    if scale > 1 and not tolerance.coarse:
        atols.append(tolerance.atol * scale)
    both = functools.partial(elements.worst_errors, (got, want), oracle, tolerance, atols)
    worst = both(quick=True).flatten().tolist()
    if not all(map(math.isfinite, worst)):
        worst = both().flatten().tolist()
    (ours, theirs), scaled = worst[:2], tuple(worst[2:]) or (0.0, 0.0)
    look = functools.partial(tails.tails, got, want, oracle, tolerance, atol=atols[0], lost=overflows)
    shares = look().tolist() if ours > 1 else []
    return replace(
        before,
        oracle=max(before.oracle or 0.0, ours),
        reference=max(before.reference or 0.0, theirs),
        scaled=(max(before.scaled[0], scaled[0]), max(before.scaled[1], scaled[1])),
        tails=tails.merged(before.tails, tuple((mine, own) for mine, own in shares)),
        coarse=tolerance.coarse,
        overflows=before.overflows or overflows,
    )
