"""Faults that show in an output alone: a constant error, one more function, an output that is displaced."""

import pytest
import torch

from kbench.judge.diagnosis import faults
from kbench.numerics import elements

FP32 = elements.tolerance_for(torch.float32)

CONSTANT = [
    (lambda w: 2 * w, "every value is 2 times the right one"),
    (lambda w: w / 40, "every value is 1/40 of the right one"),
    (lambda w: -w / 3, "every value is -1/3 of the right one"),
    (lambda w: -w, "every value is the right one with the other sign"),
    (lambda w: 1.07 * w, "every value is 1.07 times the right one"),
    (lambda w: (1 + 2.5e-5) * w, "every value is 1.000025 times the right one"),
    (lambda w: w - 0.25, "every value is the right one less 0.25"),
    (lambda w: 2 * w + 1e-2 * torch.randn_like(w), None),
    (lambda w: w.where(w > 0, 2 * w), None),
    (torch.zeros_like, None),
    (lambda w: torch.full_like(w, torch.nan), None),
    (lambda w: torch.full_like(w, 3.0), None),
]


@pytest.mark.parametrize(("make", "sentence"), CONSTANT)
def test_a_constant_error(make, sentence) -> None:
    torch.manual_seed(0)
    want = torch.randn(20, 30)
    found = faults.constant_error(make(want), want, FP32)
    assert (found.sentence if found is not None else None) == sentence


DISPLACED = [
    (lambda w: w.roll(1, 1), "writes the output one entry too far on along dimension 1"),
    (lambda w: w.roll(-1, 0), "writes the output one entry too far back along dimension 0"),
    (lambda w: w.roll(2, 1), None),
    (lambda w: w.flip(1), None),
    (lambda w: w.roll(1, 1) + 0.1, None),
    (torch.zeros_like, None),
]


@pytest.mark.parametrize(("make", "sentence"), DISPLACED)
def test_displaced(make, sentence) -> None:
    torch.manual_seed(0)
    want = torch.randn(20, 30)
    found = faults.displaced(make(want), want, FP32)
    assert (found.sentence if found is not None else None) == sentence


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_one_value_is_not_displaced_where_the_rest_of_the_output_has_it_too(value) -> None:
    """Published 2/9: zeros where a ReLU leaves a few values in the last rows."""
    want = torch.full((20, 30), value)
    want[-1] = torch.randn(30)
    assert faults.displaced(torch.full_like(want, value), want, FP32) is None


EXTRA = [
    (torch.relu, "computes `relu` of the right result, where the reference has none"),
    (torch.exp, "computes `exp` of the right result, where the reference has none"),
    (torch.sin, None),
    (lambda w: w.relu() + 1e-2, None),
    (torch.zeros_like, None),
]


@pytest.mark.parametrize(("make", "sentence"), EXTRA)
def test_one_function_more(make, sentence) -> None:
    torch.manual_seed(0)
    want = torch.randn(20, 30)
    found = faults.extra_function(make(want), want, FP32)
    assert (found.sentence if found is not None else None) == sentence
    whole = torch.arange(600).view(20, 30)
    assert faults.extra_function(whole + 1, whole, elements.tolerance_for(whole.dtype)) is None
