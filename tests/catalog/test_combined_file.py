"""A file that holds a problem and a solution: what of it the judge runs, and that both are judged."""

import ast
import sys
from pathlib import Path

import pytest
import tiny_corpus
from verdicts import verdicts

from kbench.catalog import problem, registry
from kbench.catalog.problem_module import holds_a_solution, problem_part
from kbench.core.levels import Level
from kbench.core.model import Failed, Outcome, Passed
from kbench.storage.settings import Settings

BOTH = '''"""Scale, and a solution of it."""
from __future__ import annotations
import torch
import torch.nn as nn
import os, sys
{extra}

torch.manual_seed(0)
rows = 16
cols = rows * 8
table = {{}}
table["by"] = 2.0
unused = [1]

def scale(x):
    return x * table["by"]

class Model(nn.Module):
    def forward(self, x):
        return scale(x)

SEEN = sys.modules.setdefault("kbench_test_seen", type(sys)("kbench_test_seen"))
SEEN.ran = True

class ModelNew(nn.Module):
    def forward(self, x):
        return x + x

def get_inputs():
    return [torch.randn(rows, cols)]

def get_init_inputs():
    return []

def test():
    raise SystemExit("not called")

if __name__ == "__main__":
    rows = 3
    test()
'''


def part(text: str, keep: tuple[str, ...] = ()) -> str:
    tree = ast.parse(text)
    return ast.unparse(ast.Module(body=problem_part(tree, keep), type_ignores=[]))


def test_the_problems_part_is_what_it_refers_to():
    kept = part(BOTH.format(extra="import not_installed"))
    for words in ("from __future__", "import torch", "rows = 16", "cols = rows", "table['by'] = 2.0", "def scale"):
        assert words in kept, words
    for words in ("ModelNew", "not_installed", "manual_seed", "SEEN", "def test", "unused"):
        assert words not in kept, words


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (
            "try:\n    from a import b\nexcept ImportError:\n    b = None\ndef get_inputs(): return [b]\n",
            "from a import b",
        ),
        ("from a import *\nclass ModelNew: pass\n", "from a import *"),
        ("sizes = []\nsizes.append(3)\ndef get_inputs(): return sizes\n", "sizes.append(3)"),
        ("n = 1\nn += 2\ndef get_inputs(): return n\n", "n += 2"),
        ("n = 1\ndef get_inputs(): return 1\n", "def get_inputs"),
        ("class Model:\n    size = n\nn = 4\n", "n = 4"),
    ],
)
def test_what_binds_or_changes_a_needed_name_is_kept(text, kept):
    assert kept in part(text)


def test_what_is_set_from_outside_is_kept():
    assert "n = 1" not in part("n = 1\ndef get_inputs(): return 1\n")
    assert "n = 1" in part("n = 1\ndef get_inputs(): return 1\n", keep=("n",))


def test_a_file_without_a_solution_is_left_as_it_is():
    assert not holds_a_solution(ast.parse("class Model: pass\nprint('runs')\n"))
    assert holds_a_solution(ast.parse("class Model: pass\nclass ModelNew: pass\n"))


def test_the_judge_runs_nothing_of_the_solution(tmp_path):
    path = tmp_path / "both.py"
    path.write_text(BOTH.format(extra="import not_installed"))
    sys.modules.pop("kbench_test_seen", None)
    loaded = problem.load(path, {"rows": 5}, "cpu")
    assert [tuple(x.shape) for x in loaded.inputs(0)] == [(5, 40)]
    assert not hasattr(loaded.module, "ModelNew")
    assert "kbench_test_seen" not in sys.modules


def outcome_of(solution: str | Path, problem: Path) -> Outcome:
    task = registry.find_problem(problem, Settings())
    entry = registry.find_solution(task, solution, Settings())
    judged = verdicts(task, [entry], level=Level.TASK, results_dir=problem.parent / "results")
    return judged[entry.name].outcome


@pytest.mark.slow
def test_both_are_judged(tmp_path, own_cache):
    path = tmp_path / "both.py"
    for result, expected in (("x + x", Passed), ("x", Failed)):
        path.write_text(BOTH.format(extra="").replace("return x + x", f"return {result}"))
        assert isinstance(outcome_of(path, path), expected), "the solution's part was judged"


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["Model", "kernel_function"])
def test_another_entry_is_judged(tmp_path, own_cache, entry):
    (tmp_path / "scale.py").write_text(BOTH.format(extra=""))
    model = tiny_corpus.solution("return x + x").replace("ModelNew", "Model")
    (tmp_path / "mine.py").write_text(f"{model}\n\ndef kernel_function(x):\n    return x + x\n")
    found = outcome_of(f"{tmp_path / 'mine.py'}:{entry}", tmp_path / "scale.py")
    assert isinstance(found, Passed), found
