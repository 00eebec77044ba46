"""When two outputs are one but for rounding."""

import math

import pytest
import torch

from kbench.judge.diagnosis import likeness
from kbench.numerics.elements import Tolerance

TIGHT = Tolerance(rtol=1e-5, atol=1e-5)


def nearly_zeros(at: int, value: float) -> torch.Tensor:
    found = torch.zeros(640)
    found[at] = value
    return found


@pytest.mark.parametrize(
    ("got", "alternative", "apart"),
    [
        (torch.ones(10), torch.ones(10), 0.0),
        (torch.zeros(10), torch.zeros(10), 0.0),
        (torch.full((10,), 1 + 4e-5), torch.ones(10), 2.0),
        (nearly_zeros(3, 0.04), torch.zeros(640), math.inf),
        (torch.tensor([1.0, math.nan]), torch.tensor([1.0, math.nan]), 0.0),
        (torch.tensor([1.0, math.inf]), torch.tensor([1.0, math.inf]), 0.0),
    ],
)
def test_how_far_apart_two_outputs_are(got, alternative, apart) -> None:
    assert likeness.rounding_apart(got, alternative, TIGHT) == pytest.approx(apart, rel=1e-2)


def test_few_values_among_zeros_are_not_zeros() -> None:
    """As published 2/9's, whose outputs are zeros but for a few."""
    assert not likeness.is_same(nearly_zeros(3, 0.04), nearly_zeros(70, 0.96), torch.zeros(640), TIGHT)


@pytest.mark.parametrize(("got", "explained"), [(7.49, False), (7.0, True)])
def test_of_a_single_number_a_small_error_is_explained_by_nothing(got: float, explained: bool) -> None:
    """A loss of 7.5 that is off by 0.01 has 10,000 values in between: of dozens of forms one is equal by chance."""
    equal = torch.tensor(got)
    assert likeness.is_same(equal, torch.tensor(7.5), equal, TIGHT) is explained
    assert likeness.is_same(equal.expand(8), torch.tensor(7.5).expand(8), equal.expand(8), TIGHT)
