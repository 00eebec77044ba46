"""Lazy modules: parameters that have no shape before the first call."""

import pytest
import tiny_corpus
import torch
from verdicts import verdicts, written

from kbench.catalog.problem import is_lazy, load, materialise
from kbench.core.model import Failed, Status

LAZY = tiny_corpus.problem(
    "self.fc(x)", given="torch.rand(3, width)", constants="width = 6", layers="self.fc = nn.LazyLinear(2)"
)
HALF = """

class Half(Model):
    def __init__(self):
        super().__init__()
        self.unused = nn.LazyLinear(2)
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
    path.write_text(LAZY + HALF)
    model = load(path, {}, "cpu").module.Half()
    assert is_lazy(model)
    with pytest.raises(RuntimeError, match=r"`unused\.weight` has no shape after the first call"):
        materialise(model, [torch.rand(3, 4)], seed=0)
    assert model.fc.weight.shape == (2, 4)
    assert not is_lazy(model.fc)


def test_lazy_modules_get_their_sizes_in_the_first_call(tmp_path) -> None:
    """On either side, and together with one that knows its sizes; what is wrong is wrong."""
    lazy, sized = "self.fc = nn.LazyLinear(4)", "self.fc = nn.Linear(n, 4)"
    layers = {"lazy": (lazy, "0"), "sized": (sized, "0"), "wrong": (lazy, "0.1")}
    texts = {
        name: tiny_corpus.solution(f"return self.fc(x).clamp(min={least})", layers=layer, takes="n")
        for name, (layer, least) in layers.items()
    }
    problem = tiny_corpus.problem(
        "self.fc(x).relu()", given="torch.randn(16, n)", constants="n = 24", layers=lazy, takes="n"
    )
    entry, chosen = written(tmp_path, problem, texts)
    judged = verdicts(entry, chosen)
    found = {name: event.outcome.status for name, event in judged.items() if isinstance(event.outcome, Failed)}
    assert found == {"wrong": Status.WRONG_VALUE}
    assert set(judged) == set(layers)
    assert {row.weights for event in judged.values() for row in event.rows} == {"name"}
