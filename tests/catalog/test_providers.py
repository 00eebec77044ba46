"""Solutions by `file.py:function` and `package.module:function`: how they are found, named and told apart."""

from pathlib import Path

import pytest

from kbench.catalog import registry
from kbench.catalog.places import provider_of
from kbench.core.errors import KbenchError
from kbench.report.gate import solution_word
from kbench.storage.settings import Settings

PROBLEM = "import torch\nclass Model(torch.nn.Module): pass\ndef get_inputs(): return []\n"
KERNELS = "EPS = 1e-6\ndef a(x): return x\ndef soft_max(x): return x\nclass Soft: pass\nclass ModelNew: pass\n"


@pytest.fixture
def find(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("softmax.py").write_text(PROBLEM)
    Path("kernels.py").write_text(KERNELS)
    for package in ("mykernels", "mykernels/inner"):
        Path(package).mkdir()
        Path(package, "__init__.py").write_text("from .ops import *\n")
        Path(package, "ops.py").write_text(KERNELS)
    problem = registry.find_problem("softmax.py", Settings())
    return lambda *names: registry.with_unique_names(
        [registry.find_solution(problem, name, Settings()) for name in names]
    )


@pytest.mark.parametrize(
    ("typed", "file", "target", "name"),
    [
        ("kernels.py:a", "kernels.py", "a", "a"),
        ("./kernels.py:Soft", "kernels.py", "Soft", "Soft"),
        ("kernels.py:ModelNew", "kernels.py", "ModelNew", "kernels"),
        ("mykernels.ops:a", "mykernels/ops.py", "mykernels.ops:a", "a"),
        ("mykernels.inner.ops:Soft", "mykernels/inner/ops.py", "mykernels.inner.ops:Soft", "Soft"),
        ("mykernels.inner:a", "mykernels/inner/__init__.py", "mykernels.inner:a", "a"),
        ("kernels:a", "kernels.py", "kernels:a", "a"),
        ("mykernels:ModelNew", "mykernels/__init__.py", "mykernels:ModelNew", "mykernels"),
    ],
)
def test_a_function_or_class_is_found_by_its_name(find, typed, file, target, name):
    (found,) = find(typed)
    assert (found.path.relative_to(Path.cwd()).as_posix(), found.attribute, found.name) == (file, target, name)
    problem = registry.find_problem("softmax.py", Settings())
    again = solution_word(found.recorded_path, found.name, found.variant)
    assert registry.find_solution(problem, again, Settings()).variant == found.variant
    assert registry.find_solution(problem, found.path, Settings(), entry=found.attribute).variant == found.variant


def test_functions_of_one_name_get_their_files_in_front_and_two_of_a_file_stay_two(find):
    names = [
        one.name for one in find("kernels.py:a", "mykernels.ops:a", "mykernels.inner.ops:a", "kernels.py:soft_max")
    ]
    assert names == ["kernels.a", "mykernels.ops.a", "inner.ops.a", "soft_max"]
    assert len({one.variant for one in find("kernels.py:a", "kernels.py:soft_max", "kernels.py:a", "kernels.py")}) == 3


@pytest.mark.parametrize(
    ("typed", "message", "hint"),
    [
        ("kernels.py:softmax", "defines no `softmax`", "did you mean `soft_max`?"),
        ("kernels.py:zzz", "defines no `zzz`", "it has `a`, `soft_max`, `Soft`"),
        ("kernels.py:EPS", "`EPS` in kernels.py is 1e-06, not a function or a class", "it has `a`"),
        ("kernls.py:a", "no solution file kernls.py", "did you mean `kernels.py`?"),
        ("mykernels.opps:a", "no module `mykernels.opps`", "in the current folder and in installed packages"),
        ("zzz.zzz:a", "no module `zzz.zzz`", "in the current folder and in installed packages"),
        ("mykernels.ops", "no solution named `mykernels.ops`", "`mykernels.ops:FUNCTION`"),
    ],
)
def test_what_is_not_there_is_named_with_what_to_type(find, typed, message, hint):
    with pytest.raises(KbenchError) as caught:
        find(typed)
    assert message in caught.value.message
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize("text", ["fast", "a:b:c d", "C:\\x.py", ":a", "a:", "1x:y", "mine.py"])
def test_other_words_name_no_part_of_a_file(text):
    assert provider_of(text) == (text, "")


def test_a_new_solution_of_a_shipped_problem_is_found_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = Path("solutions/group_norm")
    place.mkdir(parents=True)
    (place / "mine.py").write_text("class ModelNew: pass\n")
    problem = registry.find_problem("group_norm", Settings())
    assert registry.find_solution(problem, "mine", Settings()).path == tmp_path / place / "mine.py"
