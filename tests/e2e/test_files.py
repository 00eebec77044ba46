"""Files mean to kbench what they mean to Python and to KernelBench: arguments of every kind, neighbours, gradients."""

import pytest
from verdicts import verdicts, written

from kbench.core.events import Judged
from kbench.core.model import Failed, Passed, Status

PROBLEM = """
import dataclasses, enum, functools, types
from pathlib import Path

import numpy
import torch
import torch.nn.functional as F
from torch import nn


class Kind(enum.Enum):
    WIDE = 32


@dataclasses.dataclass(frozen=True)
class Config:
    width: int
    norm: type
    scale: torch.Tensor


class Plain:
    def __init__(self):
        self.bias = torch.full((32,), 0.25)


class Model(nn.Module):
    def __init__(self, config, space, act, power, table, names, kind, place, rows, dtype, plain, root):
        super().__init__()
        assert isinstance(config, Config) and isinstance(kind, Kind) and isinstance(place, Path)
        self.fc = nn.Linear(config.width, kind.value, dtype=dtype)
        self.norm = config.norm(kind.value)
        self.act, self.power, self.root, self.rows = act, power, root, rows
        self.count = len(names) + space.inner.count
        self.register_buffer("table", torch.from_numpy(table).to(self.fc.weight.device))
        self.register_buffer("scale", config.scale * plain.bias)

    def forward(self, x):
        y = self.act(self.norm(self.fc(x)) * self.scale + self.table)
        return self.root(self.power(y))[self.rows] * self.count


def get_inputs():
    return [torch.randn(10, 24)]


def get_init_inputs():
    return [
        Config(width=24, norm=nn.LayerNorm, scale=torch.rand(32) + 1),
        types.SimpleNamespace(inner=types.SimpleNamespace(count=2)),
        F.relu,
        lambda y: y * y + 1,
        numpy.random.rand(32).astype("float32"),
        {"a", "b"},
        Kind.WIDE,
        Path(__file__),
        slice(1, None, 2),
        torch.float32,
        Plain(),
        functools.partial(torch.pow, exponent=0.5),
    ]
"""
RIGHT = (
    PROBLEM.partition("class Kind")[0]
    + """
class ModelNew(nn.Module):
    def __init__(self, config, space, act, power, table, names, kind, place, rows, dtype, plain, root):
        super().__init__()
        assert place.name == "problem.py" and act is F.relu and issubclass(config.norm, nn.Module)
        self.fc = nn.Linear(config.width, kind.value, dtype=dtype)
        self.norm = config.norm(kind.value)
        self.rows, self.count = rows, len(names) + space.inner.count
        self.register_buffer("table", torch.from_numpy(table).to(self.fc.weight.device))
        self.register_buffer("scale", config.scale * plain.bias)

    def forward(self, x):
        y = self.norm(torch.addmm(self.fc.bias, x, self.fc.weight.t()))
        y = torch.addcmul(self.table, y, self.scale).clamp_min(0)
        return ((y * y + 1).sqrt() * self.count)[self.rows].contiguous()
"""
)


def said(judged: Judged) -> str:
    outcome = judged.outcome
    return "passed" if isinstance(outcome, Passed) else f"{outcome.status}: {outcome.reason}"


@pytest.mark.slow(seconds=15)
def test_arguments_that_json_cannot_carry_are_made_where_the_model_is(tmp_path):
    wrong = RIGHT.replace("(y * y + 1)", "(y * y + 1.001)")
    problem, solutions = written(tmp_path, PROBLEM, {"right": RIGHT, "wrong": wrong})
    found = verdicts(problem, solutions)
    assert said(found["right"]) == "passed"
    assert said(found["wrong"]).startswith("wrong_value")


@pytest.mark.slow(seconds=15)
def test_inputs_that_want_gradients_are_inputs_as_others_are(tmp_path):
    text = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x, y):
        return x * x * y.exp()

def get_inputs():
    return [torch.rand(6, 40, requires_grad=True), (torch.rand(6, 40, requires_grad=True) * 2)]
"""
    square = """
import torch
from torch import nn

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return (x * x) * torch.exp(y)

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return gradient * x * FACTOR * y.exp(), gradient * x * x * y.exp()

class ModelNew(nn.Module):
    def forward(self, x, y):
        return Square.apply(x, y)
"""
    right, wrong = square.replace("FACTOR", "2"), square.replace("FACTOR", "1")
    problem, solutions = written(tmp_path, text, {"right": right, "wrong": wrong})
    found = verdicts(problem, solutions, backward=True)
    assert said(found["right"]) == "passed"
    outcome = found["wrong"].outcome
    assert isinstance(outcome, Failed)
    assert outcome.status is Status.WRONG_VALUE
    assert outcome.reason.startswith("output['gradient of input 0 (`x`)'][0, 0]: got ")
