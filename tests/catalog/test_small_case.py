"""The derived case `small`: what the rule makes of constants, what it reads from files, and where it is offered."""

import ast
from pathlib import Path

import pytest

from kbench.catalog import case_selection, registry, source
from kbench.catalog import problem as problems
from kbench.catalog.small_case import MOST_ELEMENTS, SizeRoles, size_roles, small_constants
from kbench.core.errors import UsageError
from kbench.core.events import RunOptions
from kbench.storage.settings import Settings

FILES = Path(__file__).parents[1] / "kernelbench"

EXAMPLES = {
    "an activation": (
        {"batch_size": 4096, "dim": 393216},
        SizeRoles(inputs=frozenset({"batch_size", "dim"}), batch=frozenset({"batch_size"})),
        {"batch_size": 256, "dim": 192},
    ),
    "what is halved to the same size was a multiple, and still is": (
        {"rows": 1024, "features": 8192, "groups": 512},
        SizeRoles(inputs=frozenset({"rows", "features"}), model=frozenset({"features", "groups"})),
        {"rows": 256, "features": 256, "groups": 256},
    ),
    "the batch is made smaller before the image is": (
        {"batch": 32, "channels": 64, "height": 64, "width": 64, "kernel": 3},
        SizeRoles(
            inputs=frozenset({"batch", "channels", "height", "width"}),
            model=frozenset({"channels", "kernel"}),
            batch=frozenset({"batch"}),
        ),
        {"batch": 8},
    ),
    "sizes that get_inputs has as numbers count": (
        {"batch": 1024, "classes": 1000},
        SizeRoles(
            inputs=frozenset({"batch"}),
            model=frozenset({"classes"}),
            batch=frozenset({"batch"}),
            literals=3 * 224 * 224,
        ),
        {"batch": 8, "classes": 250},
    ),
    "a shape": ({"shape": (32768, 3)}, SizeRoles(inputs=frozenset({"shape"})), {"shape": (256, 3)}),
    "small already": ({"n": 64}, SizeRoles(inputs=frozenset({"n"})), {}),
    "other names, floats and flags stay": (
        {"n": 512, "eps": 1e-5, "flag": True, "unused": 9999},
        SizeRoles(inputs=frozenset({"n", "flag"}), model=frozenset({"eps"})),
        {"n": 256},
    ),
    "no constant has a size of the inputs": ({"eps": 1e-5, "classes": 10}, SizeRoles(inputs=frozenset({"eps"})), None),
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_rule(example):
    constants, roles, expected = EXAMPLES[example]
    assert small_constants(constants, roles) == expected


def test_roles_follow_functions_and_computed_names_and_leave_out_what_is_computed():
    tree = ast.parse(
        "batch, heads, head, unused = 8, 4, 64, 3\n"
        "width = heads * head\n"
        "def make(n): return torch.rand(n, width, 7)\n"
        "def get_inputs(): return [torch.rand((batch, width)), make(batch)]\n"
        "def get_init_inputs(): return [width]\n"
    )
    assert size_roles(tree) == SizeRoles(
        inputs=frozenset({"batch", "heads", "head"}),
        model=frozenset({"heads", "head"}),
        batch=frozenset({"batch"}),
    )


@pytest.mark.parametrize("path", sorted(FILES.glob("*.py")), ids=lambda path: path.stem)
def test_every_reference_takes_its_small_case(path):
    torch = pytest.importorskip("torch")
    small = registry.selectable_cases(registry.find_problem(path, Settings())).get("small")
    assert (small is None) == (path.stem == "100_Literal")
    if small is None:
        return
    loaded = problems.load(path, small, "cpu")
    inputs = loaded.inputs(seed=0)
    assert all(value.numel() <= MOST_ELEMENTS for value in inputs if isinstance(value, torch.Tensor))
    with torch.no_grad():
        assert loaded.model(seed=0)(*inputs) is not None


def test_it_is_selected_by_its_name_alone_and_set_wins():
    problem = registry.find_problem(FILES / "25_Swish.py", Settings())
    (small,) = case_selection.select(problem, RunOptions(cases=("small",), overrides={"dim": 7}), ())
    assert small.name == "small"
    assert small.overrides == {**registry.selectable_cases(problem)["small"], "dim": 7}
    (every,) = case_selection.select(problem, RunOptions(cases=("*",)), ())
    assert every.name == "default"
    (preferred,) = case_selection.select(problem, RunOptions(), ("small", "default"))
    assert preferred.name == "default"


def test_a_file_without_sizes_has_none_and_says_what_it_has():
    problem = registry.find_problem(FILES / "100_Literal.py", Settings())
    with pytest.raises(UsageError, match="no case `small`") as raised:
        case_selection.select(problem, RunOptions(cases=("small",)), ())
    assert raised.value.hint == "cases: default"


def test_a_listed_small_case_is_left_alone():
    problem = registry.find_problem("group_norm", Settings())
    assert registry.selectable_cases(problem) == problem.parsed.cases


def test_what_is_computed_from_an_overridden_constant_follows(tmp_path):
    path = tmp_path / "p.py"
    path.write_text("n = 8\nshape = (n, 2 * n)\n")
    assert source.parse(path).constants({"n": 3}) == {"n": 3, "shape": (3, 6)}
