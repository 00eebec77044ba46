"""Calls of forward and backward: which gradients they return, and in whose memory."""

import copy

import pytest
import torch

from kbench.core.timed import BACKWARD
from kbench.process.autograd import OUTPUT, Gradients, gradients_of, load

TEXT = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x, index, y):
        BODY

def get_inputs():
    return [torch.randn(3, 4), torch.arange(3), torch.randn(3, 4)]
"""
INPUTS = ["gradient of input 0 (`x`)", "gradient of input 2 (`y`)"]


def made(tmp_path, body: str):
    path = tmp_path / "problem.py"
    path.write_text(TEXT.replace("BODY", body))
    problem = load(path, {}, "cpu", timed=BACKWARD)
    return problem, problem.model(0), problem.inputs(1)


def test_gradients_are_those_of_autograd_also_in_a_wider_copy(tmp_path):
    problem, model, (x, index, y, [seed]) = made(tmp_path, "return x * x * self.weight + y")
    found = model(x, index, y, [seed])
    torch.testing.assert_close(found[INPUTS[0]], 2 * x * model.weight.detach() * seed)
    torch.testing.assert_close(found["gradient of parameter `weight`"], (seed * x * x).sum(0))
    wide = copy.deepcopy(model).double()(x.double(), index, y.double(), [seed.double()])
    assert {value.dtype for value in wide.values()} == {torch.float64}
    assert not any(value.requires_grad for value in found.values())
    assert list(gradients_of(problem).inputs) == INPUTS


def test_a_gradient_never_lies_in_the_memory_of_an_input(tmp_path):
    _, model, arguments = made(tmp_path, "return x + y")
    found = model(*arguments)
    places = [found[name].data_ptr() for name in INPUTS] + [arguments[-1][0].data_ptr()]
    assert len(set(places)) == 3


@pytest.mark.parametrize(
    ("body", "zero"),
    [
        ("return x.detach() * y, x", []),
        ("return (x > 0), index", INPUTS),
        ("return x.sin_() * self.weight", INPUTS[1:]),
    ],
)
def test_what_has_no_gradient_has_zeros(tmp_path, body, zero):
    _, model, arguments = made(tmp_path, body)
    found = model(*arguments)
    assert [name for name in INPUTS if not found[name].any()] == zero
    assert OUTPUT in found


@pytest.mark.parametrize(
    ("arguments", "inputs", "expected"),
    [
        (["x", "seeds"], {"gradient of input 0": 0}, {0, 1}),
        (["index", "x", "seeds"], {"gradient of input 1": 1}, {1, 2}),
        (["pair", "x", "flag", "seeds"], {"gradient of input 1": 1}, {2, 3}),
        (["index", "seeds"], {}, {1}),
    ],
)
def test_a_backward_pass_may_write_over_what_it_differentiates_and_over_gradients_of_outputs(
    arguments, inputs, expected
):
    x = torch.zeros(2)
    known = {"x": x, "index": torch.arange(2), "pair": [torch.arange(2), (x,)], "flag": True, "seeds": [x]}
    assert Gradients(inputs=inputs).overwritable([known[name] for name in arguments]) == expected


def test_an_output_of_another_form_has_no_gradient_and_is_returned(tmp_path):
    problem, model, (x, index, y, [seed]) = made(tmp_path, "return x * y")
    found = gradients_of(problem).call(
        lambda x, index, y: (x * y)[:, :2], dict(model.named_parameters()), [x, index, y, [seed]]
    )
    assert found[OUTPUT].shape == (3, 2)
    assert not found[INPUTS[0]].any()
