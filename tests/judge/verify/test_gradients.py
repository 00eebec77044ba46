"""Gradients are held to the rule for outputs."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from kbench.judge.verify import gradients
from kbench.numerics import elements

REFERENCE = SimpleNamespace(factor=4.0, tolerance=lambda tensor: elements.tolerance_for(tensor.dtype))


def refused(got, want, exact, *, delivered=True) -> bool:
    return bool(gradients.fault_of(REFERENCE, "weight", delivered, got, want, exact))


def test_one_large_gradient_does_not_pay_for_the_others():
    """By a tolerance that grows with the largest element, an error of 10 passed beside a gradient of a million."""
    exact = torch.ones(1000, dtype=torch.float64)
    exact[0] = 1e6
    want = exact.float()
    assert not refused(want, want, exact)
    got = want.clone()
    got[500] = 1.001
    assert refused(got, want, exact)


@pytest.mark.parametrize(("dtype", "wrong"), [(torch.float32, True), (torch.bfloat16, False)])
def test_the_tolerance_is_that_of_the_dtype(dtype, wrong):
    torch.manual_seed(0)
    exact = torch.randn(1000, dtype=torch.float64)
    want = exact.to(dtype)
    assert refused((exact * (1 + 1e-3)).to(dtype), want, exact) is wrong


def test_a_gradient_that_is_not_delivered_is_wrong_unless_it_is_zero():
    one, nothing = torch.ones(4), torch.zeros(4)
    assert refused(nothing, one, one.double(), delivered=False)
    assert not refused(nothing, nothing, nothing.double(), delivered=False)


class Casts(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((8,), 1 / 3))

    def forward(self, x):
        return (x.float() * self.weight).to(torch.float32).sin()


def test_casts_of_the_model_do_not_cost_the_fp64_gradient_its_digits():
    torch.manual_seed(0)
    x, seed = torch.randn(8), torch.randn(8)
    found = gradients.gradients(Casts(), [x], [seed], ["weight"], double=True)
    wide, third = x.double(), torch.full((8,), 1 / 3).double()
    assert [t.dtype for t in found] == [torch.float64] * 2
    torch.testing.assert_close(found[1], seed.double() * wide * (wide * third).cos(), rtol=1e-14, atol=0)
    assert torch.get_default_dtype() == torch.float32


def test_a_wrong_gradient_is_told_as_wrong_values_are():
    exact = torch.ones(4, 3, dtype=torch.float64)
    got = exact.float()
    got[2, 1] = 3.0
    told = gradients.fault_of(REFERENCE, "input 1 (`scale`)", True, got, exact.float(), exact)
    assert told.startswith(
        "the gradient of input 1 (`scale`) is wrong: gradient[2, 1]: got 3, want 1; 1 of 12 elements"
    )


def test_a_gradient_that_is_missing_is_one_thing_only():
    zeros = torch.zeros(2)
    told = gradients.fault_of(REFERENCE, "parameter `w`", False, zeros, torch.ones(2), torch.ones(2).double())
    assert told.startswith("parameter `w` gets no gradient, and the reference's is not zero")
    assert not gradients.fault_of(REFERENCE, "parameter `w`", False, zeros, zeros, zeros.double())


class Named(nn.Module):
    def forward(self, x, axis, scale, *more):
        return x


def test_inputs_are_named_by_the_parameters_of_forward():
    values = [torch.ones(1), 0, torch.ones(2)]
    assert gradients._input_names(Named(), values) == ["input 0 (`x`)", "input 2 (`scale`)"]
    assert gradients._input_names(Named(), [*values, torch.ones(1)])[-1] == "input 3 (`more`)"
    assert gradients._input_names(Named(), [*values, 1, torch.ones(1)]) == ["input 0", "input 2", "input 4"]
