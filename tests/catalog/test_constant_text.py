"""Constants as they are typed, and the cases that the page on grids promises."""

import re
import shlex
from pathlib import Path

import pytest

from kbench.catalog import case_selection, registry
from kbench.catalog.constant_text import case_of_constants, fitted, grid_cases, parse_grid, parse_overrides, text_of
from kbench.core.errors import UsageError
from kbench.core.events import RunOptions
from kbench.storage.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs/how-to/grids.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(.+?)` \| (.+) \|$", PAGE, re.M)
FILE = re.search(r'```python title="grid.py"\n(.*?)```', PAGE, re.S)[1]
LITERAL = """CASES = {"small": {"M": 8, "N": 64}, "1x128": {"M": 1, "N": 128}, "1x500": {"M": 1, "N": 500},
    "64x128": {"M": 64, "N": 128}, "64x500": {"M": 64, "N": 500}, "decode": {"M": 1, "N": 4096, "weight": 9}}
"""
"""The page's cases as a table of literals: no child runs in these tests."""


@pytest.fixture
def problem(tmp_path):
    path = tmp_path / "grid.py"
    path.write_text(re.sub(r"CASES = \{.*?^\}\n", LITERAL, FILE, flags=re.S | re.M))
    return registry.find_problem(path, Settings())


def selected(problem, options):
    words = shlex.split(options)
    given = {flag: [words[i + 1] for i, word in enumerate(words) if word == flag] for flag in {*words[::2]}}
    overrides = parse_overrides(given.get("--set", ()))
    cases = (
        grid_cases(given.get("--case", ()), grid) if (grid := parse_grid(given.get("--grid", ()), overrides)) else ()
    )
    cases = cases or tuple(given.get("--case", ()))
    return case_selection.select(problem, RunOptions(cases=cases, overrides=overrides), ("default",))


@pytest.mark.parametrize(("options", "cases"), ROWS)
def test_the_page_says_which_cases_options_make(problem, options, cases):
    assert len(ROWS) == 8
    assert [case.name for case in selected(problem, options)] == re.findall("`(.+?)`", cases)


def test_a_grid_wins_over_its_case_and_set_applies_to_all(problem):
    (one,) = selected(problem, "--case small --grid M=1 --set N=7")
    assert one.overrides == {"M": 1, "N": 7}
    decode, other = selected(problem, "--case decode --grid M=2,3")
    assert (decode.overrides, decode.weight) == ({"M": 2, "N": 4096}, 9.0)
    assert other.weight == 9.0


def test_a_second_measurement_finds_the_case_of_a_row_again(problem):
    (one,) = selected(problem, "--case small --grid M=1 --set dtype=float16")
    by_hand = case_selection.set_by_hand(problem, one.name, one.overrides)
    assert by_hand == {"dtype": "float16"}
    options = RunOptions(cases=(one.name,), overrides=by_hand)
    assert case_selection.select(problem, options, ("default",)) == (one,)


@pytest.mark.parametrize("value", [1024, -1.5, "bfloat16", "a b", True, None, (3,), (3, 4), ("relu", 2), "True"])
def test_a_value_is_read_as_it_is_written(value):
    assert case_of_constants(f"k={text_of(value)},n=1") == ("", {"k": value, "n": 1})
    assert parse_overrides([f"k={text_of(value)}"]) == {"k": value}


@pytest.mark.parametrize("name", ["small", "M=", "=1", "M=f()", "M=1,2", "M=1,**{}", "M=1)+(2"])
def test_other_names_are_no_constants(name):
    assert case_of_constants(name) is None


def test_several_values_are_a_tuple_for_set_and_points_for_grid():
    assert parse_overrides(["shape=3,5"]) == {"shape": (3, 5)}
    assert parse_grid(["shape=(3,5),(7,)"], {}) == {"shape": [(3, 5), (7,)]}


def test_a_dtype_is_its_name_or_itself_as_the_file_has_it():
    torch = pytest.importorskip("torch")
    assert fitted("float32", "bfloat16") == "bfloat16"
    assert fitted(torch.float32, "bfloat16") is torch.bfloat16
    assert fitted(torch.float32, "torch.half") is torch.float16
    assert (fitted(torch.half, "bf16"), fitted(torch.half, "f64")) == (torch.bfloat16, torch.float64)
    assert fitted(4, "bfloat16") == "bfloat16"
    with pytest.raises(UsageError, match="torch has no dtype `bfloat17`"):
        fitted(torch.float32, "bfloat17")
    with pytest.raises(UsageError, match="torch has no dtype `relu`"):
        fitted(torch.float32, "relu")
