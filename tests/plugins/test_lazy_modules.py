"""Lazy modules: parameters that have no shape before the first call."""

import pytest
import torch

from kbench.core.events import Judged, RunOptions
from kbench.core.model import Failed, Status
from kbench.plugins import registry
from kbench.plugins.problem import is_lazy, load, materialise
from kbench.run.session import run
from kbench.storage import settings

LAZY = """
import torch

width = 6


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.LazyLinear(2)

    def forward(self, x):
        return self.fc(x)


class Half(Model):
    def __init__(self):
        super().__init__()
        self.unused = torch.nn.LazyLinear(2)


def get_inputs():
    return [torch.rand(3, width)]
"""


def test_lazy_modules_have_their_parameters_from_the_start(tmp_path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(LAZY)
    loaded = load(path, {"width": 5}, "cpu")
    first, again, other = (loaded.model(seed).fc.weight for seed in (1, 1, 2))
    assert first.shape == (2, 5)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_lazy_module_that_is_never_called_is_named(tmp_path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(LAZY)
    model = load(path, {}, "cpu").module.Half()
    assert is_lazy(model)
    with pytest.raises(RuntimeError, match=r"`unused\.weight` has no shape after the first call"):
        materialise(model, [torch.rand(3, 4)], seed=0)
    assert model.fc.weight.shape == (2, 4)
    assert not is_lazy(model.fc)


LAYER = """
import torch

n = 24


class Model(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.fc = {layer}

    def forward(self, x):
        return self.fc(x).{relu}


def get_inputs():
    return [torch.randn(16, n)]


def get_init_inputs():
    return [n]
"""


def test_lazy_modules_get_their_sizes_in_the_first_call(tmp_path) -> None:
    """On either side, and together with one that knows its sizes; what is wrong is wrong."""
    lazy, sized = "torch.nn.LazyLinear(4)", "torch.nn.Linear(n, 4)"
    layers = {"lazy": (lazy, "clamp(min=0)"), "sized": (sized, "clamp(min=0)"), "wrong": (lazy, "clamp(min=0.1)")}
    solutions = {
        name: LAYER.format(layer=layer, relu=relu).replace("Model(", "ModelNew(")
        for name, (layer, relu) in layers.items()
    }
    problem = LAYER.format(layer=lazy, relu="relu()")
    for name, text in {"layer": problem, **solutions}.items():
        (tmp_path / f"{name}.py").write_text(text)
    known = settings.load()
    entry = registry.find_problem(tmp_path / "layer.py", known)
    chosen = [registry.find_solution(entry, tmp_path / f"{name}.py", known) for name in solutions]
    events = run(entry, chosen, RunOptions(device="cpu", verify_only=True, save=False))
    judged = {event.solution: event for event in events if isinstance(event, Judged)}
    found = {name: event.outcome.status for name, event in judged.items() if isinstance(event.outcome, Failed)}
    assert found == {"wrong": Status.WRONG_VALUE}
    assert set(judged) == set(solutions)
    assert {row.weights for event in judged.values() for row in event.rows} == {"name"}
