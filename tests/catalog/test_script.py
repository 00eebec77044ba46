"""What a problem's file finds around it: what it would find under `python file.py`."""

import os
import sys
import zipfile
from pathlib import Path

import pytest

from kbench.catalog import script
from kbench.catalog.problem import load
from kbench.core.errors import PluginError

PROBLEM = """
import torch
{above}


class Model(torch.nn.Module):
    def forward(self, x):
        return x


def get_inputs():
    {inside}
    return [torch.ones({rows}), {value}]
"""


def write(folder: Path, name: str = "problem.py", **parts: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(PROBLEM.format(**{"above": "", "inside": "", "rows": "2", "value": "0", **parts}))
    return path


def value(path: Path) -> object:
    return load(path, {}, "cpu").inputs(seed=0)[1]


@pytest.fixture
def caller(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "caller"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    "above",
    [
        "import argparse; p = argparse.ArgumentParser(); p.add_argument('--n', default=7)\nn = p.parse_args().n",
        "import sys; n = 7 if len(sys.argv) == 1 else 0",
        "import sys; from pathlib import Path; n = 7 if Path(sys.argv[0]).samefile(__file__) else 0",
    ],
)
@pytest.mark.parametrize("where", ["above", "inside"])
def test_its_arguments_are_its_path_alone(tmp_path, monkeypatch, above, where):
    monkeypatch.setattr(sys, "argv", ["kbench", "verify", "--device", "cpu"])
    assert value(write(tmp_path, **{where: above.replace("\n", "; ")}, value="n")) == 7


@pytest.mark.parametrize(
    "name", ["helper", "secrets", "profile", "utils"], ids=["new name", "imported before", "of Python", "common"]
)
def test_a_module_beside_it_comes_first(tmp_path, name):
    if name in sys.modules:
        pytest.skip("python file.py would not have it yet")
    (tmp_path / f"{name}.py").write_text("n = 7")
    assert value(write(tmp_path, above=f"import {name}", value=f"{name}.n")) == 7


@pytest.mark.parametrize(
    "above",
    [
        "import sys; sys.path.insert(0, __file__ + '.zip'); from packed import n",
        "import runpy; n = runpy.run_path(__file__ + '.txt')['n']",
        "import runpy; n = runpy.run_path(__file__ + '.zip')['n']",
    ],
)
def test_archives_and_scripts_beside_it_have_pythons_own_finders(tmp_path, above):
    path = write(tmp_path, above=above, value="n")
    (tmp_path / f"{path.name}.txt").write_text("n = 7")
    with zipfile.ZipFile(tmp_path / f"{path.name}.zip", "w") as archive:
        archive.writestr("packed.py", "n = 7")
        archive.writestr("__main__.py", "n = 7")
    assert value(path) == 7


@pytest.mark.parametrize("inside", [False, True])
def test_a_package_beside_it_and_its_parts_are_found(tmp_path, inside):
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "__init__.py").write_text("from own_package.part import n")
    (tmp_path / "own_package" / "part.py").write_text("from .inner import n")
    (tmp_path / "own_package" / "inner.py").write_text("import beside\nn = beside.n")
    (tmp_path / "beside.py").write_text("n = 7")
    where = "inside" if inside else "above"
    assert value(write(tmp_path, **{where: "from own_package import n"}, value="n")) == 7


@pytest.mark.parametrize("beside", ["real", "link", "both"])
def test_the_real_files_folder_comes_before_the_links(tmp_path, beside):
    real, link = tmp_path / "real", tmp_path / "link"
    path = write(real, above="from helper import n", value="n")
    link.mkdir()
    (link / "problem.py").symlink_to(path)
    for folder, number in ((real, 1), (link, 2)):
        if beside in {folder.name, "both"}:
            (folder / "helper.py").write_text(f"n = {number}")
    assert value(link / "problem.py") == (2 if beside == "link" else 1)


def test_the_callers_folder_comes_last(tmp_path, caller):
    (caller / "mykernels").mkdir()
    (caller / "mykernels" / "ops.py").write_text("import torch; n = 7")
    (caller / "json.py").write_text("raise AssertionError")
    (caller / "helper.py").write_text("n = 2")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "helper.py").write_text("n = 1")
    sys.modules.pop("wave", None)
    (caller / "wave.py").write_text("raise AssertionError")
    above = "import wave\nfrom mykernels import ops\nimport helper"
    assert value(write(tmp_path / "files", above=above, value="(ops.n, helper.n)")) == (7, 1)


def test_installed_packages_do_not_see_the_files_folder(tmp_path):
    """Torch imports `triton` and modules of Python when it needs them, and a neighbour may have such a name."""
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "library.py").write_text("def late():\n    import sched\n    return sched.__file__")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "sched.py").write_text("raise AssertionError")
    sys.modules.pop("sched", None)
    sys.path.append(str(tmp_path / "installed"))
    try:
        found = value(write(tmp_path / "files", above="import library", value="library.late()"))
    finally:
        script.leave()
        sys.path.remove(str(tmp_path / "installed"))
    assert Path(str(found)).name == "sched.py"
    assert Path(str(found)).parent != tmp_path / "files"


@pytest.mark.parametrize("name", ["sched", "einops_of_nobody"], ids=["there", "not there"])
def test_a_file_named_after_what_it_imports_is_not_what_it_imports(tmp_path, name):
    sys.modules.pop(name, None)
    path = write(tmp_path, f"{name}.py", above=f"import {name}", value=f"{name}.__file__")
    if name == "sched":
        assert str(value(path)) != str(path)
        return
    with pytest.raises(PluginError, match=f"No module named '{name}'.*pip install {name}"):
        value(path)


def test_the_modules_of_one_folder_are_not_those_of_another(tmp_path):
    paths = []
    for number, name in enumerate(("one", "other")):
        paths.append(write(tmp_path / name, above="import helper", inside="import late", value="(helper.n, late.n)"))
        (tmp_path / name / "helper.py").write_text(f"n = {number}")
        (tmp_path / name / "late.py").write_text(f"n = {number}")
    assert [value(path) for path in paths] == [(0, 0), (1, 1)]
    script.leave()
    assert not {"helper", "late"} & set(sys.modules)
    assert not any(str(tmp_path) in place for place in sys.path)


def test_what_is_on_the_disk_is_imported_whatever_is_cached(tmp_path):
    (tmp_path / "helper.py").write_text("n = 1")
    path = write(tmp_path, above="import helper", value="helper.n")
    assert value(path) == 1
    script.leave()
    stamp = (tmp_path / "helper.py").stat()
    (tmp_path / "helper.py").write_text("n = 2")
    os.utime(tmp_path / "helper.py", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert value(path) == 2


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("import sys; sys.exit(3)", "3"),
        ("raise SystemExit", "None"),
        ("import argparse; p = argparse.ArgumentParser(); p.add_argument('n'); p.parse_args()", "2"),
        ("import sys; sys.exit('no such file')", "no such file"),
    ],
)
@pytest.mark.parametrize("where", ["above", "inside"])
def test_a_file_that_ends_the_program_is_told_by_its_line(tmp_path, line, code, where):
    path = write(tmp_path, **{where: line})
    number = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if line in text)
    doing = "when it is imported" if where == "above" else "in `get_inputs`"
    with pytest.raises(PluginError) as raised:
        value(path)
    assert str(raised.value).startswith(
        f"{path}, line {number}: `{line}` ends the program {doing} (SystemExit: {code})"
    )
    assert "__main__" in str(raised.value)


def test_the_helper_that_ends_the_program_is_named(tmp_path):
    (tmp_path / "helper.py").write_text("import sys\nsys.exit(1)")
    with pytest.raises(PluginError, match=r"helper\.py, line 2: `sys.exit\(1\)` ends the program"):
        value(write(tmp_path, above="import helper"))


@pytest.mark.parametrize(
    ("above", "told"),
    [
        (
            "from einops_of_nobody import x",
            "line 3: ModuleNotFoundError: No module named 'einops_of_nobody'; no package",
        ),
        ("import torch.of_nobody", "line 3: ModuleNotFoundError: No module named 'torch.of_nobody'; `torch` is "),
        ("from .beside import x", "line 3: ImportError: attempted relative import .*; .*without the dot"),
        ("from torch import of_nobody", "line 3: ImportError: cannot import name 'of_nobody' from 'torch'"),
    ],
)
def test_a_failed_import_says_where_was_looked_and_what_to_do(tmp_path, above, told):
    with pytest.raises(PluginError, match=told):
        value(write(tmp_path, above=above))


@pytest.mark.parametrize("through", ["itself", "a link to it"])
def test_a_judge_imports_no_candidate_whatever_a_problem_tries_to_import(tmp_path, monkeypatch, through):
    """A candidate that is called as an optional package would run beside the expected values."""
    (tmp_path / "solutions").mkdir()
    candidate = tmp_path / "solutions" / "fast_math.py"
    candidate.write_text("n = 7")
    (tmp_path / "fast_math.py").symlink_to(candidate)
    above = "try:\n    import fast_math as n\nexcept ImportError:\n    n = None"
    path = write(tmp_path, above=above, value="n")
    script.close([str(candidate if through == "itself" else tmp_path / "fast_math.py")])
    monkeypatch.syspath_prepend(tmp_path / "nowhere")
    try:
        assert value(path) is None
    finally:
        script.close(())


def test_a_neighbour_that_was_edited_is_imported_again_in_the_same_process(tmp_path):
    (tmp_path / "helper.py").write_text("n = 1")
    path = write(tmp_path, above="import helper", value="helper.n")
    assert [value(path), value(path)] == [1, 1]
    (tmp_path / "helper.py").write_text("n = 2")
    assert value(path) == 2


@pytest.mark.parametrize("place", ["files", "caller"])
def test_no_installed_package_finds_a_candidate_or_any_neighbour(tmp_path, caller, place):
    """Torch asks for `triton` where there is none, and would run what is beside the problem in the judge."""
    (tmp_path / "installed").mkdir()
    library = "def late():\n    try:\n        import fast_of_nobody\n    except ImportError:\n        return None\n"
    asks = "    import importlib.util\n    return importlib.util.find_spec('fast_of_nobody')\n"
    (tmp_path / "installed" / "library.py").write_text(library + "    return fast_of_nobody\ndef ask():\n" + asks)
    (tmp_path / "files").mkdir()
    (tmp_path / place / "fast_of_nobody.py").write_text("n = 7")
    sys.path.append(str(tmp_path / "installed"))
    sys.modules.pop("library", None)
    try:
        path = write(tmp_path / "files", above="import library", value="library.late(), library.ask()")
        assert value(path) is None
        assert load(path, {}, "cpu").inputs(seed=0)[1:] == [None, None]
        own = write(tmp_path / "files", above="import fast_of_nobody", value="fast_of_nobody.n")
        assert value(own) == 7
    finally:
        script.leave()
        sys.path.remove(str(tmp_path / "installed"))
