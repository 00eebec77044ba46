"""Which constants of a row came from `--set`, and who is verified at shapes that a problem does not list."""

from pathlib import Path

import pytest
import tiny_corpus

from kbench.catalog import case_selection, registry
from kbench.core.events import RunOptions
from kbench.core.levels import Level
from kbench.core.model import Case
from kbench.storage.settings import Settings

PROBLEM = tiny_corpus.problem(
    "x * factor",
    given="torch.rand(shape)",
    constants='shape = (2, 3)\nfactor = 1\nCASES = {"default": {}, "wide": {"shape": (4, 8)}}',
)


def test_what_a_case_sets_itself_is_not_set_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "scale.py"
    path.write_text(PROBLEM)
    problem = registry.find_problem(str(path), Settings())
    assert case_selection.set_by_hand(problem, "wide", {"shape": [4, 8]}) == {}
    assert case_selection.set_by_hand(problem, "wide", {"shape": [4, 8], "factor": 2}) == {"factor": 2}
    assert case_selection.set_by_hand(problem, "default", {"shape": [4, 8]}) == {"shape": [4, 8]}


@pytest.mark.parametrize(
    ("case", "solution", "level", "needs"),
    [
        ("wide", "eager", Level.MODULE, True),
        ("wide", "eager", Level.GENERAL, True),
        ("wide", "eager", Level.TASK, False),
        ("ragged", "eager", Level.MODULE, False),
        ("ragged_rows", "eager", Level.MODULE, False),
    ],
)
def test_shapes_are_derived_where_a_level_asks_for_some_that_the_problem_does_not_list(
    tmp_path: Path, case: str, solution: str, level: Level, needs: bool
) -> None:
    path = tmp_path / "scale.py"
    path.write_text(PROBLEM.replace('"wide"', f'"{case}"'))
    problem = registry.find_problem(str(path), Settings())
    entry = registry.find_solution(problem, solution, Settings())
    assert case_selection.needs_derived_shapes(problem, entry, level) is needs


COVERED = """{
    "small": {"n": 4}, "ragged": {"n": 7, "dtype": "float16"},
    "half": {"n": 64, "dtype": "bfloat16", "rate": 0.5, "groups": (2, 3)},
}"""


@pytest.mark.parametrize(
    ("case", "options", "found"),
    [
        # a size is that of the other case or of the file, what is no size that of the judged case
        (
            "half",
            {},
            {
                "small": {"n": 4, "dtype": "bfloat16", "rate": 0.5},
                "ragged": {"n": 7, "dtype": "float16", "rate": 0.5},
            },
        ),
        ("half+backward", {"rate": 0.25}, {
            "small": {"n": 4, "dtype": "bfloat16", "rate": 0.25},
            "ragged": {"n": 7, "dtype": "float16", "rate": 0.25},
        }),
        ("small", {}, {"ragged": {"n": 7, "dtype": "float16"}}),
        ("ragged", {}, {"small": {"n": 4, "dtype": "float16"}}),
    ],
)  # fmt: skip
def test_other_cases_have_the_constants_of_the_judged_one_that_are_no_sizes(tmp_path, case, options, found) -> None:
    path = tmp_path / "scale.py"
    path.write_text(
        tiny_corpus.problem(constants=f'n, rate, groups, dtype = 8, 1.0, (1, 1), "float32"\nCASES = {COVERED}')
    )
    problem = registry.find_problem(str(path), Settings())
    overrides = problem.parsed.cases[case.removesuffix("+backward")]
    made = case_selection.others(problem, RunOptions(overrides=options), Case(name=case, overrides=overrides))
    assert made == found
    assert [*made] == [*found]


@pytest.mark.parametrize(
    ("asked", "backward", "found"),
    [
        ((), True, ["default", "default+backward"]),
        (("wide", "default+backward"), False, ["wide", "default+backward"]),
        (("wide+backward",), True, ["wide+backward"]),
        (("*",), True, ["default", "default+backward", "wide", "wide+backward"]),
        (("wide", "wide+backward"), False, ["wide", "wide+backward"]),
    ],
)
def test_a_case_of_both_passes_follows_its_own(tmp_path: Path, asked, backward, found) -> None:
    path = tmp_path / "scale.py"
    path.write_text(PROBLEM)
    problem = registry.find_problem(str(path), Settings())
    cases = case_selection.select(problem, RunOptions(cases=asked, backward=backward), ())
    assert [case.name for case in cases] == found
    assert all(case.overrides == ({"shape": (4, 8)} if case.name.startswith("wide") else {}) for case in cases)
    assert case_selection.set_by_hand(problem, "wide+backward", {"shape": [4, 8], "factor": 2}) == {"factor": 2}
