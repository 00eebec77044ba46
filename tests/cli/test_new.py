"""`kbench new`: files that kbench accepts at once, complete but for one function."""

import ast
import re
import shlex
from pathlib import Path
from typing import get_args

import pytest

from kbench.catalog import registry
from kbench.cli.new import Language
from kbench.storage.settings import Settings


def test_a_new_problem_is_a_problem(kbench):
    done = kbench("new", "problem", "plus")
    assert (done.code, done.out) == (0, "plus.py\n")
    assert (
        done.err
        == "hint: fill in `Model.forward`, then `kbench run plus.py eager` and `kbench new solution plus.py NAME`\n"
    )
    entry = registry.find_problem("./plus.py", Settings())
    assert set(entry.parsed.cases) == {"default", "small", "ragged"}
    assert "raise NotImplementedError" in Path("plus.py").read_text()


@pytest.mark.parametrize("language", get_args(Language))
def test_a_new_solution_takes_over_the_constructor(kbench, language):
    done = kbench("new", "solution", "group_norm", "mine", "--language", language)
    assert (done.code, done.out) == (0, "solutions/group_norm/mine.py\n")
    path = Path("solutions/group_norm/mine.py")
    tree = ast.parse(path.read_text())
    model = next(node for node in tree.body if isinstance(node, ast.ClassDef))
    constructor = ast.unparse(model.body[1])
    assert "def __init__(self, num_features: int, num_groups: int):" in constructor
    assert "self.gn = nn.GroupNorm(" in constructor
    problem = registry.find_problem("group_norm", Settings())
    entry = registry.find_solution(problem, path, Settings())
    assert entry.devices == {"torch": ("cuda", "cpu"), "cpp": ("cpu",)}.get(language, ("cuda",))


def test_hints_on_files_can_be_typed_as_they_stand(kbench):
    new = kbench("new", "problem", "plus", "--in", "my dir")
    made = kbench("new", "solution", "my dir/plus.py", "fast", "--language", "cuda")
    unknown = kbench("verify", "my dir/plus.py", "zzz", "--device", "cpu")
    lines = [line for told in (new, made, unknown) for line in re.findall(r"`(kbench [^`]+)`", told.err)]
    assert lines == [
        "kbench run 'my dir/plus.py' eager",
        "kbench new solution 'my dir/plus.py' NAME",
        "kbench run 'my dir/plus.py' 'my dir/solutions/plus/fast.py'",
        "kbench list 'my dir/plus.py'",
    ]
    assert kbench(*shlex.split(lines[-1])[1:]).code == 0


def test_a_solution_of_a_file_lands_beside_it_and_is_found_by_name(kbench, tmp_path):
    kbench("new", "problem", "plus", "--in", "deep")
    done = kbench("new", "solution", "deep/plus.py", "fast", "--language", "torch")
    assert done.out == "deep/solutions/plus/fast.py\n"
    problem = registry.find_problem("deep/plus.py", Settings())
    assert registry.find_solution(problem, "fast", Settings()).name == "fast"


def test_nothing_is_overwritten(kbench):
    Path("plus.py").write_text("mine")
    done = kbench("new", "problem", "plus")
    assert done.code == 2
    assert "plus.py exists already" in done.err
    assert Path("plus.py").read_text() == "mine"


def test_a_folder_that_cannot_be_written(kbench):
    Path("file").write_text("")
    done = kbench("new", "problem", "plus", "--in", "file/below")
    assert done.code == 3
    assert "hint: choose a folder with `--in`" in done.err


def test_json_names_the_file(kbench):
    done = kbench("new", "problem", "plus", "--json")
    document = done.document
    assert (done.code, document["status"], document["path"]) == (0, "ok", "plus.py")
