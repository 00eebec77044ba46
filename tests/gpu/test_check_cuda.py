"""Comparing on a GPU says what it says on the CPU."""

import pytest
import torch
from require import WITH_CUDA

from kbench.numerics import elements

pytestmark = WITH_CUDA

TOLERANCE = elements.tolerance_for(torch.float32)


def outputs(noise: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    want = torch.randn(3, 41, 1009, generator=generator)
    return want + noise * torch.randn(want.shape, generator=generator), want


@pytest.mark.parametrize("noise", [0.0, 1e-7, 1e-6])
@pytest.mark.parametrize("strided", [False, True])
def test_both_say_the_same(noise, strided) -> None:
    got, want = (t.repeat(40, 1, 1) for t in outputs(noise))
    if strided:
        got, want = got.transpose(0, 2), want.transpose(0, 2)
    here, there = elements.compare(got, want, TOLERANCE), elements.compare(got.cuda(), want.cuda(), TOLERANCE)
    assert there.elements == here.elements
    assert there.max_abs == here.max_abs
    assert (there.max_rel, there.ratio) == pytest.approx((here.max_rel, here.ratio), rel=1e-6)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 2.0])
@pytest.mark.parametrize("place", [0, 4_500_000, -1])
def test_one_bad_element_is_found(bad, place) -> None:
    got, want = outputs(1e-7)
    got, want = got.repeat(40, 1, 1).cuda(), want.repeat(40, 1, 1).cuda()
    got.view(-1)[place] = bad
    found = elements.compare(got, want, TOLERANCE)
    assert (found.wrong, len(found.mismatches)) == (1, 1)
    assert found.ratio > 1


def test_equal_nans_and_infinities_are_right() -> None:
    got, want = outputs(1e-7)
    for value, place in ((float("nan"), 3), (float("inf"), 4), (-float("inf"), 5)):
        got.view(-1)[place] = want.view(-1)[place] = value
    found = elements.compare(got.cuda(), want.cuda(), TOLERANCE)
    assert (found.wrong, found.ratio <= 1) == (0, True)
