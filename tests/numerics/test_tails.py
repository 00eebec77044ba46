"""How errors are distributed over the elements of an output."""

import pytest
import torch
from require import WITH_CUDA

from kbench.numerics import tails
from kbench.numerics.elements import Tolerance

DEVICES = ["cpu", pytest.param("cuda", marks=WITH_CUDA)]
ROUGH = Tolerance(rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(1000,), (40, 25), (70_000,), (3, 100, 1000)])
def test_shares_of_the_elements_that_are_so_far_off(device, shape):
    """Errors of 0 ... 1 tolerance, evenly; of the reference a tenth of that."""
    torch.manual_seed(1)
    oracle = torch.ones(shape, dtype=torch.float64, device=device)
    off = torch.rand(shape, device=device, dtype=torch.float64)
    got, want = 1 + 2e-2 * off, 1 + 2e-3 * off
    found = tails.tails(got, want, oracle, ROUGH, atol=ROUGH.atol)
    assert len(found) == (min(oracle.numel(), tails.SAMPLE) // tails.SURE).bit_length() - 1
    for power, (ours, theirs) in enumerate(found[:6].tolist(), start=1):
        assert ours == pytest.approx(1 - 0.5**power, abs=0.03)
        assert theirs == pytest.approx(0.1 * (1 - 0.5 ** (power + 1)), abs=0.003)
    half_off = 0.05 * (ROUGH.rtol + ROUGH.atol) / (ROUGH.rtol + ROUGH.near_zero(1.0))
    assert tails.quantile_error(want, oracle, ROUGH, 0.5) == pytest.approx(half_off, abs=0.004)


def test_few_elements_have_no_shares():
    few = torch.ones(2 * tails.SURE - 1)
    assert tails.tails(few, few, few.double(), ROUGH, atol=ROUGH.atol).tolist() == []
    enough = torch.ones(2 * tails.SURE)
    assert tails.tails(enough, enough, enough.double(), ROUGH, atol=ROUGH.atol).tolist() == [[0.0, 0.0]]


def test_pieces_of_one_output_count_by_their_larger_errors():
    assert tails.merged((), ((1.0, 2.0),)) == ((1.0, 2.0),)
    assert tails.merged(((3.0, 1.0), (4.0, 4.0)), ((1.0, 2.0),)) == ((3.0, 2.0),)
