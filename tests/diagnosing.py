"""What kbench says of a function that is wrong."""

import torch
from torch import nn

from kbench.judge.diagnosis.search import WrongAnswer, diagnose
from kbench.numerics import elements
from kbench.plugins.problem import randomise, variable


class Reference(nn.Module):
    """A function of a module with parameters, or of None, and of inputs."""

    def __init__(self, inner, function):
        super().__init__()
        self.inner = inner
        self.function = function

    def forward(self, *inputs):
        return self.function(self.inner, *inputs)


def called(function, wrong, *inputs, inner=None):
    """Return what is said of a wrong function, as `code: sentence`; empty where nothing is."""
    model = Reference(inner, function)
    randomise(model, 11, variable(model))
    with torch.no_grad():
        want, got = model(*inputs), wrong(inner, *inputs)
        tolerance = elements.tolerance_for(want.dtype)
        assert got.shape == want.shape
        assert not elements.same_bits(got, want), "no fault"
        known = {"tolerances": [tolerance], "arguments": list(inputs), "model": model}
        found = diagnose(WrongAnswer(got=[got], want=[want], **known), budget_s=20.0)
    return f"{found.code}: {found.sentence}" if found is not None else ""


def holds(found, said):
    return found.startswith(said) and bool(found) == bool(said)
