"""Distances of a candidate's and the reference's outputs from fp64."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from kbench.catalog.containers import tensors
from kbench.core.model import Mismatch
from kbench.core.values import FACTOR, Ratios
from kbench.judge.reference.expected import Expected
from kbench.judge.reference.oracle import Pieces, has_all_misses, worst_of_entries
from kbench.judge.reference.reference import Reference
from kbench.numerics import elements, tails

SMALL_CHANGE = 2e-3
"""Share of an input (root mean square) below which its change is compared separately."""


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
        tolerance_of: Callable[[Tensor], elements.Tolerance],
    ) -> list[Ratios]:
        """Return the errors of outputs, compared with the reference (`differences`) and with fp64."""
        found = [Ratios(contract=d.ratio, vacuous=v) for d, v in zip(differences, self.vacuous, strict=True)]
        for index, exact in self.pieces or ():
            for number, (got, want, double) in enumerate(zip(outputs, expected.judged.values(), exact, strict=True)):
                tolerance = tolerance_of(want)
                if tolerance.exact or not (double.dtype.is_floating_point or double.dtype == torch.complex128):
                    continue
                found[number] = against_oracle(found[number], got[index], want[index], double, tolerance)
                if self.has_all_misses and found[number].contract > 1 and not tolerance.coarse:
                    scale = tolerance.near_zero(elements.rms(double))
                    missed = elements.worst_miss(got[index], want[index], double, tolerance, scale)
                    found[number] = replace(found[number], missed=max(missed, found[number].missed or 0.0))
                if index is ... and not tolerance.coarse:
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


def change_errors(
    arguments: list[Any], got: Tensor, want: Tensor, oracle: Tensor, tolerance: elements.Tolerance
) -> tuple[float, float]:
    """Compare the change of an input with fp64, if an output is that input but for a small change.

    Returns the errors of candidate and reference, in units of atol `rms of the change` + rtol |change| + FACTOR eps
    |output|: the step of an optimiser is lost in the tolerance of its parameter.
    """
    worst = (0.0, 0.0)
    for x in tensors(arguments):
        comparable = x.shape == want.shape and x.dtype == want.dtype and x.device == want.device
        if comparable and 0 < (apart := elements.rms_apart(want, x)) < SMALL_CHANGE:
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
    """Add the errors of one piece of an output to its ratios, with two reads of the device, which others may share."""
    overflows, scale = elements.overflow_and_rms(want, oracle)
    atols = [tolerance.near_zero(scale)]
    if scale > 1 and not tolerance.coarse:
        atols.append(tolerance.atol * scale)
    lost = want if overflows else None
    worst = [elements.worst_error(each, oracle, tolerance, atol, lost) for atol in atols for each in (got, want)]
    shares = tails.tails(got, want, oracle, tolerance, atol=atols[0], lost=overflows)
    ours, theirs, *rest = torch.cat([torch.stack(worst), shares.flatten()]).tolist()
    scaled = (rest.pop(0), rest.pop(0)) if len(atols) > 1 else (0.0, 0.0)
    return replace(
        before,
        oracle=max(before.oracle or 0.0, ours),
        reference=max(before.reference or 0.0, theirs),
        scaled=(max(before.scaled[0], scaled[0]), max(before.scaled[1], scaled[1])),
        tails=tails.merged(before.tails, tuple(zip(rest[::2], rest[1::2], strict=True))),
        coarse=tolerance.coarse,
        overflows=before.overflows or overflows,
    )
