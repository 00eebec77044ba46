"""Loading problems: overrides that reach derived constants, inputs by seed, random parameters, and time spent."""

import contextlib
from pathlib import Path

import pytest
import torch

from kbench.catalog import problem
from kbench.catalog.problem import LoadedProblem, OwnTime, Step, footprint_bytes, load, randomise, variable
from kbench.core.errors import PluginError, UsageError

SOURCE = """
import random
import numpy
import torch

batch = 4
width: int = 8
elements = batch * width
shape = (batch, width)
low, high = -1.0, 1.0
for _ in range(1):
    doubled = 2 * elements
TOLERANCE = 1e-3


class Model(torch.nn.Module):
    def __init__(self, width, *, bias=True):
        super().__init__()
        self.fc = torch.nn.Linear(width, 2, bias=bias)

    def forward(self, x, n):
        return self.fc(x) * n


def get_inputs():
    numbers = [random.random(), float(numpy.random.rand())]
    return [torch.rand(shape) * (high - low) + low, elements, torch.tensor(numbers)]


def get_init_inputs():
    return [[width], {"bias": False}]
"""


@pytest.fixture
def path(tmp_path) -> Path:
    file = tmp_path / "linear.py"
    file.write_text(SOURCE)
    return file


def loaded(path: Path, **overrides) -> LoadedProblem:
    return load(path, overrides, "cpu")


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), (3, 5), [2], "a'b\n", None, True, 1e-300])
def test_any_value_overrides_a_constant(path, value) -> None:
    assert loaded(path, high=value).module.high == value


def test_derived_constants_follow(path) -> None:
    problem = loaded(path, batch=3, width=5)
    x, elements, _ = problem.inputs(seed=1)
    assert (tuple(x.shape), elements, problem.module.doubled) == ((3, 5), 15, 30)
    assert problem.model(0).fc.in_features == 5


@pytest.mark.parametrize(
    ("name", "value"), [("high", 9.0), ("shape", (2, 3)), ("elements", -7), ("TOLERANCE", None), ("batch", "four")]
)
def test_any_top_level_constant_can_be_replaced(path, name, value) -> None:
    if name == "batch":
        with pytest.raises(PluginError, match="line 8: TypeError"):
            load(path, {name: [value], "width": 0.5}, "cpu")
        return
    assert getattr(loaded(path, **{name: value}).module, name) == value


def test_a_constant_is_replaced_wherever_the_file_assigns_it(tmp_path) -> None:
    path = tmp_path / "nested.py"
    path.write_text(
        "try:\n    import no_such_module\nexcept ImportError:\n    size = 4\n"
        "size += 1\nhalf: int = size // 2\n"
        "class Model: pass\ndef get_inputs(): return [size]\n"
    )
    problem = load(path, {"size": 20}, "cpu")
    assert (problem.module.half, problem.inputs()) == (10, [20])


def test_two_loads_do_not_share_constants(path) -> None:
    small, large = loaded(path, batch=1), loaded(path, batch=9)
    assert (small.module.batch, large.module.batch) == (1, 9)
    assert small.inputs(0)[0].shape[0] == 1


def test_an_unknown_name_is_refused_with_a_hint(path) -> None:
    with pytest.raises(UsageError, match="no constant `widht`") as caught:
        loaded(path, widht=3)
    assert "width" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("def get_inputs(): return []", "defines no `Model`"),
        ("class Model: pass", "defines no `get_inputs`"),
        ("x = 1 / 0", "ZeroDivisionError"),
        ("x = (", r"broken\.py:1"),
    ],
)
def test_a_broken_file_is_named(tmp_path, text, complaint) -> None:
    file = tmp_path / "broken.py"
    file.write_text(text)
    with pytest.raises(PluginError, match=complaint):
        load(file, {}, "cpu")


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("def Model(): return lambda x: x", "function"),
        ("class Model:\n    def __call__(self, x): return x", "Model"),
        ("class Model(dict):\n    def __init__(self): super().__init__()", "Model"),
    ],
)
def test_a_model_that_is_no_module_is_named(tmp_path, model, kind) -> None:
    file = tmp_path / "plain.py"
    file.write_text(f"import torch\n{model}\ndef get_inputs(): return [torch.randn(3)]\n")
    with pytest.raises(PluginError, match=f"`Model` makes a {kind}, which is no `torch.nn.Module`"):
        load(file, {}, "cpu").model(1)


@pytest.mark.parametrize(
    ("head", "encoding"),
    [("", "utf-8-sig"), ("# -*- coding: latin-1 -*-\n", "latin-1"), ("# café\n", "utf-8")],
    ids=["byte order mark", "declared", "default"],
)
def test_a_file_is_read_in_its_own_encoding(path, head, encoding) -> None:
    text = head + SOURCE.replace("batch = 4", 'name = "größe"\nbatch = 4')
    path.write_bytes(text.encode(encoding))
    assert load(path, {}, "cpu").module.name == "größe"


def test_equal_seeds_give_equal_inputs(path) -> None:
    """Whichever generator a problem draws from: torch's, Python's or numpy's."""
    problem = loaded(path)
    first, again, other = problem.inputs(5), problem.inputs(5), problem.inputs(6)
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[2], again[2])
    assert not torch.equal(first[0], other[0])
    assert (first[2] != other[2]).all()


def test_equal_seeds_give_equal_models(path) -> None:
    problem = loaded(path)
    assert torch.equal(problem.model(3).fc.weight, problem.model(3).fc.weight)
    assert not torch.equal(problem.model(3).fc.weight, problem.model(4).fc.weight)
    assert problem.model(3).fc.bias is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ([], {})),
        ("class Model:\n    def __init__(self, size=3, *, eps=1e-5): ...", ([], {})),
        ("class Model:\n    def __init__(self, size, eps=1e-5): ...", r"without arguments: .*'size'"),
        *((f"def get_init_inputs(): return {value}", "returns .*, not a list") for value in ("8", "None", "'8'")),
        ("import torch\ndef get_init_inputs(): return torch.rand(2)", "`get_init_inputs` returns Tensor, not a list"),
        ("def get_init_inputs(): return []", ([], {})),
        ("def get_init_inputs(): return [3, 4]", ([3, 4], {})),
        ("def get_init_inputs(): return {'a': 1}", ([], {"a": 1})),
        ("def get_init_inputs(): return [[3], {'a': 1}]", ([3], {"a": 1})),
        ("def get_init_inputs(): return [[3], [4]]", ([[3], [4]], {})),
    ],
)
def test_constructor_arguments(tmp_path, text, expected) -> None:
    file = tmp_path / "some.py"
    file.write_text(f"class Model: pass\ndef get_inputs(): return []\n{text}\n")
    problem = load(file, {}, "cpu")
    with pytest.raises(PluginError, match=expected) if isinstance(expected, str) else contextlib.nullcontext():
        assert problem.init_inputs() == expected


# --- parameters ----------------------------------------------------------------


class Norms(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(100, 300)
        self.norm = torch.nn.GroupNorm(4, 400)
        self.batch = torch.nn.BatchNorm1d(400)
        self.scale = torch.nn.Parameter(torch.full((400,), 0.01))
        self.steps = torch.nn.Parameter(torch.arange(3), requires_grad=False)
        self.register_buffer("mask", torch.tril(torch.ones(4, 4)))


@pytest.fixture
def model() -> Norms:
    torch.manual_seed(0)
    return Norms()


def test_parameters_that_vary_keep_their_distribution(model) -> None:
    before = model.fc.weight.detach().clone()
    randomise(model, 7, variable(model))
    after = model.fc.weight.detach()
    assert not torch.isclose(before, after).any(dim=1).all()
    assert after.mean().item() == pytest.approx(before.mean().item(), abs=0.02 * before.std().item())
    assert after.std().item() == pytest.approx(before.std().item(), rel=0.02)
    assert after.abs().max() <= 2 * before.abs().max()


@pytest.mark.parametrize("keep_signs", [False, True])
def test_new_values_are_scaled_but_for_statistics(model, keep_signs) -> None:
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    made = []
    for scale in (1.0, 0.125):
        model.load_state_dict(state)
        randomise(model, 7, variable(model), keep_signs=keep_signs, scale=scale)
        made.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
    usual, small = made
    torch.testing.assert_close(small["fc.weight"], usual["fc.weight"] / 8)
    torch.testing.assert_close(small["scale"], usual["scale"] / 8)
    assert torch.equal(small["batch.running_var"], usual["batch.running_var"])


def test_each_kind_of_state_gets_values_of_its_own(model) -> None:
    randomise(model, 7, variable(model))
    gamma, beta = model.norm.weight.detach(), model.norm.bias.detach()
    assert (gamma < 0).any()
    assert (gamma > 0).any()
    assert ((gamma.abs() >= 0.5) & (gamma.abs() <= 1.5)).all()
    assert gamma.unique().numel() > 300
    assert (beta < 0).any()
    assert (beta > 0).any()
    assert beta.std() > 0.4
    magnitude = model.scale.detach().abs()  # of a constant
    assert ((magnitude >= 0.005) & (magnitude <= 0.015)).all()
    assert magnitude.unique().numel() > 300
    assert (model.batch.running_var > 0).all()
    assert model.batch.running_var.std() > 0.1
    assert model.batch.running_mean.std() > 0.1
    assert model.batch.num_batches_tracked == 0
    assert torch.equal(model.mask, torch.tril(torch.ones(4, 4)))
    assert model.steps.tolist() == [0, 1, 2]


def test_a_seed_decides(model) -> None:
    values = []
    for seed in (1, 1, 2):
        torch.manual_seed(0)
        fresh = Norms()
        randomise(fresh, seed, variable(fresh))
        values.append(fresh.norm.weight.detach())
    assert torch.equal(values[0], values[1])
    assert not torch.isclose(values[0], values[2]).all()


@pytest.mark.parametrize("value", ["tight", -1e-3, 0, True, float("nan"), float("inf")])
def test_a_tolerance_is_a_positive_number(path, value) -> None:
    with pytest.raises(PluginError, match=r"TOLERANCE is .*, not a positive number"):
        _ = loaded(path, TOLERANCE=value).tolerance


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("raise ValueError", ["import", "call"]),
        (SOURCE.replace("super().__init__()", "raise ValueError"), ["import", "call", "construct", "call"]),
        (
            SOURCE.replace('return [[width], {"bias": False}]', "raise ValueError"),
            ["import", "call", "construct", "call"],
        ),
    ],
)
def test_a_step_is_over_where_it_raises(tmp_path, text, steps) -> None:
    """The time of a problem's own steps counts against nobody, so one that is never over would stop the clock."""
    file = tmp_path / "raises.py"
    file.write_text(text)
    told: list[Step] = []
    assert footprint_bytes(file, {}, report=told.append) == 0
    assert told == steps
    told.clear()
    with pytest.raises((ValueError, PluginError)):
        load(file, {}, "cpu", told.append).model(seed=0)
    assert told == steps


def test_the_time_of_the_problems_own_code_is_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(problem.time, "monotonic", lambda: now[0])
    counted = OwnTime()
    seen = []
    for passed_s, step in ((5.0, None), (2.0, Step.IMPORT), (3.0, Step.CONSTRUCT), (4.0, Step.CALL), (7.0, None)):
        now[0] += passed_s
        counted.note(step)
        seen.append((counted.seconds, counted.is_running))
    assert seen == [(0.0, False), (0.0, True), (3.0, True), (7.0, False), (7.0, False)]
