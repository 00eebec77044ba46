"""Faults that show in an output alone, beside what it should be: pure functions that name one, or return None."""

import itertools

from torch import Tensor

from kbench.core.diagnosis import UNWRITTEN, Diagnosis
from kbench.devices.poison import is_poison
from kbench.judge.diagnosis import likeness, regions
from kbench.judge.diagnosis.slips import functions
from kbench.numerics import elements

GROSS = 0.02
"""Half of a region's errors must exceed this share of the right values (root mean squares)."""
MOST_BAD = 0.75
"""Chosen. Where more of an output is wrong, the rest may be right by chance: the last row without a causal mask."""
LEEWAY = 16.0
"""The rest of the output may be wrong by this many tolerances, as an honest product's worst element may be."""
CONSTANT = "the difference varies by less than 0.3 %"
SIMPLE = 1e-4
"""Chosen: how near a factor is to a whole number, or one over it, that is named in its place."""


def unwritten(got: Tensor) -> Diagnosis | None:
    """Name the region of an output that still holds the poison that kbench filled it with."""
    bad = is_poison(got)
    count, total = int(bad.sum().item()), bad.numel()
    region = regions.region_of(bad)  # None also of all
    if not count or (count < total and region is None):
        return None
    sentence = f"never writes {region.words}" if region is not None else "writes nothing of the output"
    evidence = f"{count:,} of {total:,} elements hold kbench's filling"
    return Diagnosis(code=UNWRITTEN, sentence=sentence, evidence=evidence)


def transposed(got: Tensor, want: Tensor, tolerance: elements.Tolerance) -> Diagnosis | None:
    """Return which two dimensions of an output are exchanged, in its memory or its indices."""
    if got.numel() < likeness.FEW or likeness.is_one_value(got):
        return None
    for first, second in itertools.combinations([dim for dim, size in enumerate(got.shape) if size != 1], 2):
        turned = want.transpose(first, second)
        read = want.reshape(turned.shape).transpose(first, second)
        if any(likeness.is_same(got, want, other, tolerance) for other in (turned.reshape(want.shape), read)):
            sentence = f"writes the output with dimensions {first} and {second} exchanged"
            return _equal("transposed", sentence, "the reference's output turned so")
    return None


def displaced(got: Tensor, want: Tensor, tolerance: elements.Tolerance) -> Diagnosis | None:
    """Return along which dimension an output lies one entry too far on, or back."""
    for dim, size in enumerate(got.shape):
        most = max(size - 1, 0)
        for mine, theirs, words in ((size - most, 0, "on"), (0, size - most, "back")):
            a, b, c = (t.narrow(dim, at, most) for t, at in ((got, mine), (want, mine), (want, theirs)))
            # One value everywhere lies nowhere: zeros equal all rows of a ReLU's output but the few that are not zero.
            if a.numel() >= likeness.SEVERAL and not likeness.is_one_value(a) and likeness.is_same(a, b, c, tolerance):
                sentence = f"writes the output one entry too far {words} along dimension {dim}"
                return _equal("displaced", sentence, "the reference's output displaced so")
    return None


def constant_error(got: Tensor, want: Tensor, tolerance: elements.Tolerance) -> Diagnosis | None:
    """Return by which factor or summand all values differ; of a few values only -1, 2 and 1/2 count."""
    a, b = got.double().flatten(), want.double().flatten()
    if got.is_complex() or not a.numel() or not bool((a.isfinite() & b.isfinite()).all()) or not bool(b.any()):
        return None
    forms = [(n, 0.0) for n in (-1.0, 2.0, 0.5)]
    if a.numel() >= likeness.SEVERAL and a.var().item():
        forms = [((a * b).sum().item() / b.square().sum().item(), 0.0), (1.0, (a - b).mean().item())]
    for times, plus in forms:
        form = (b * times + plus).view(want.shape)
        if likeness.is_same(got, want, form, tolerance) and likeness.rest(got, want, form) <= likeness.GROSS_REST:
            words = f"the right one {'plus' if plus > 0 else 'less'} {abs(plus):.4g}" if plus else _times(times)
            return Diagnosis(code="constant_error", sentence=f"every value is {words}", evidence=CONSTANT)
    return None


def extra_function(got: Tensor, want: Tensor, tolerance: elements.Tolerance) -> Diagnosis | None:
    """Return which function of one value was computed of the right output."""
    is_constant = got.numel() >= likeness.FEW and likeness.is_one_value(got)
    if not want.is_floating_point() or not got.numel() or is_constant:
        return None
    for name, function in itertools.chain.from_iterable(family.items() for family in functions.FAMILIES):
        if likeness.is_same(got, want, function(want), tolerance):
            sentence = f"computes `{name}` of the right result, where the reference has none"
            return _equal("other_function", sentence, f"`{name}` of the reference's output")
    return None


def _equal(code: str, sentence: str, what: str) -> Diagnosis:
    return Diagnosis(code=code, sentence=sentence, evidence=f"equal to {what}, within the tolerance")


def _times(factor: float) -> str:
    """Name a factor: a whole number, or one over it, where it is near to one."""
    inverse = round(1 / factor) if factor else 0
    if abs(inverse) > 1 and abs(factor * inverse - 1) < SIMPLE:
        return f"{'-' * (inverse < 0)}1/{abs(inverse)} of the right one"
    nearest = round(factor)
    whole = nearest and abs(factor / nearest - 1) < SIMPLE
    if whole and nearest == -1:
        return "the right one with the other sign"
    digits = 4 if abs(factor - 1) > 10 * SIMPLE else 7
    return f"{nearest if whole and nearest != 1 else f'{factor:.{digits}g}'} times the right one"


def partial_block(got: Tensor, want: Tensor, tolerance: elements.Tolerance) -> Diagnosis | None:
    """Name the region outside of which an output is right, where it is wrong by much inside."""
    if tolerance.exact:
        bad = got != want
    else:
        bad = elements.errors(got, want, tolerance, tolerance.atol * min(1.0, elements.rms(want))) > LEEWAY
    region = regions.region_of(bad)
    if region is None:
        return None
    if not tolerance.exact:
        error, right = (got[bad] - want[bad]).abs().double(), elements.rms(want[bad])
        if bool(error.isfinite().all()) and error.median().item() < GROSS * right:
            return None
    held = got[bad]
    same = held.numel() > 1 and likeness.is_one_value(held)
    if not same and held.numel() > MOST_BAD * bad.numel():
        return None
    what = f"; there it is {held.flatten()[0].item():g} everywhere" if same else ""
    return Diagnosis(
        code="partial_block",
        sentence=f"wrong in {region.words}, right elsewhere{what}",
        evidence=f"{int(bad.sum().item()):,} of {bad.numel():,} elements are wrong, {region.filled:.0%} of that region",
    )
