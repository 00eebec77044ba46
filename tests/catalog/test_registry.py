"""The registry finds plugins in all their places, reads them without running them, and words its errors."""

import functools
import os
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from kbench.catalog import places, registry, source
from kbench.catalog.registry import Entry
from kbench.core.errors import ExitCode, PluginError, UsageError
from kbench.core.model import Status
from kbench.engine import options as plan
from kbench.storage.settings import Settings

ROOT = Path(__file__).parents[2]
PROBLEM = '''"""Adds one."""
rows, cols = 4, 2 * 8
Model = get_inputs = get_init_inputs = None
raise SystemExit("a registry must not run this")
'''
SOLUTION = '"""Fast."""\nDEVICES = ("cuda",)\nclass ModelNew: pass\nraise SystemExit("nor this")\n'
NO_PATHS = Settings()


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def problem(tmp_path) -> Entry:
    """A problem in a file of its own."""
    return registry.find_problem(write(tmp_path / "plus.py", PROBLEM), NO_PATHS)


def test_a_name_is_one_line_that_a_terminal_may_show(tmp_path):
    problem = registry.find_problem(write(tmp_path / "of\nmany \x1b[2J.py", PROBLEM), NO_PATHS)
    solution = write(tmp_path / "\x1b]0;title\x07\udcff b.py", SOLUTION)
    assert problem.name == r"of many \x1b[2J"
    assert registry.find_solution(problem, solution, NO_PATHS).name == r"\x1b]0;title\x07\xdcff b"
    assert [entry.name for entry in registry.problems_in(tmp_path)] == [r"of many \x1b[2J.py"]


def test_shipped_problems_have_the_missions_constants_and_the_three_cases():
    found = {entry.name: entry for entry in registry.problems(NO_PATHS)}
    constants = found["group_norm"].parsed.constants()
    assert constants == {"batch_size": 112, "features": 64, "num_groups": 8, "dim1": 512, "dim2": 512}
    for entry in found.values():
        assert {"default", "small", "ragged"} <= set(entry.parsed.cases)
        assert entry.summary
        assert entry.origin == "kbench"
        assert [s.name for s in registry.solutions(entry, NO_PATHS)][-3:] == list(places.BUILTINS)


def test_a_path_brings_the_solutions_beside_it(tmp_path):
    path = write(tmp_path / "plus.py", PROBLEM)
    write(tmp_path / "plus" / "near.py", SOLUTION)
    write(tmp_path / "solutions" / "plus" / "nested.py", SOLUTION)
    write(tmp_path / "plus" / "_private.py", SOLUTION)
    problem = registry.find_problem(str(path), NO_PATHS)
    assert (problem.name, problem.summary, problem.origin) == ("plus", "Adds one.", "path")
    names = [entry.name for entry in registry.solutions(problem, NO_PATHS)]
    assert names == ["near", "nested", "eager", "compile", "compile-max-autotune"]
    assert registry.find_solution(problem, "near", NO_PATHS).devices == ("cuda",)


def test_settings_paths_add_problems_and_solutions_to_shipped_ones(tmp_path):
    write(tmp_path / "mine" / "plus.py", PROBLEM)
    write(tmp_path / "mine" / "solutions" / "group_norm" / "odd.py", SOLUTION)
    settings = Settings(paths=(tmp_path / "mine",))
    assert registry.find_problem("plus", settings).origin == "settings"
    shipped = registry.find_problem("group_norm", settings)
    assert registry.find_solution(shipped, "odd", settings).origin == "settings"


def test_entry_points_name_folders_without_importing_them(tmp_path, monkeypatch):
    write(tmp_path / "vendor_kernels" / "__init__.py", "raise SystemExit('imported')")
    write(tmp_path / "vendor_kernels" / "problems" / "plus.py", PROBLEM)
    write(tmp_path / "vendor_kernels" / "solutions" / "plus" / "vendor.py", SOLUTION)
    points = {
        "kbench.problems": [EntryPoint("v", "vendor_kernels.problems", "kbench.problems")],
        "kbench.solutions": [
            EntryPoint("v", "vendor_kernels.solutions", "kbench.solutions"),
            EntryPoint("gone", "no_such_package", "kbench.solutions"),
        ],
    }
    monkeypatch.setattr(places, "entry_points", lambda group: points[group])
    monkeypatch.syspath_prepend(tmp_path)
    problem = registry.find_problem("plus", NO_PATHS)
    assert problem.origin == "entry point"
    assert [e.name for e in registry.solutions(problem, NO_PATHS)][:1] == ["vendor"]


OWN = "a file of your own needs its path"


@pytest.mark.parametrize(
    ("of", "name", "message", "hint"),
    [
        (None, "zzz", "no problem named `zzz`", "`kbench list` shows all problems"),
        (None, "./xyz.py", "no problem file xyz.py", "check the path"),
        (None, "absent/plus.py", "no problem file absent/plus.py", "the folder does not exist: absent"),
        (None, "solutions/", "solutions is a folder, not a problem", "give a file in it, such as `solutions/NAME.py`"),
        (None, "plus", "no problem named `plus`", f"{OWN}: `plus.py`"),
        ("plus.py", "plus", "`plus` has no solution named `plus`", f"{OWN}: `plus.py`"),
        ("near/plus.py", "mine", "`plus` has no solution named `mine`", f"{OWN}: `near/mine.py`"),
        (None, "notes.txt", "notes.txt is not a Python file, so it is not a problem", "its name must end in `.py`"),
        ("plus.py", "notes.txt", "is not a Python file, so it is not a solution", "its name must end in `.py`"),
    ],
)
def test_what_is_not_found_is_told_with_what_is_near(tmp_path, monkeypatch, problem, of, name, message, hint):
    monkeypatch.chdir(tmp_path)
    write(Path("notes.txt"), "hello")
    Path("solutions").mkdir()
    write(Path("near/plus.py"), Path("plus.py").read_text())
    write(Path("near/mine.py"), SOLUTION)
    find = registry.find_problem
    if of is not None:
        find = functools.partial(registry.find_solution, registry.find_problem(of, NO_PATHS))
    with pytest.raises((UsageError, PluginError)) as caught:
        find(name, NO_PATHS)
    assert message in caught.value.message
    assert (caught.value.hint, caught.value.exit_code) == (hint, ExitCode.USAGE)


def test_a_name_that_two_files_share_is_refused(tmp_path):
    write(tmp_path / "group_norm.py", PROBLEM)
    with pytest.raises(UsageError, match="more than one problem is named `group_norm`"):
        registry.find_problem("group_norm", Settings(paths=(tmp_path,)))


@pytest.mark.parametrize(
    ("name", "text", "message", "hint"),
    [
        ("p.py", "class Model: pass\ndef get_init_inputs(): pass\n", "defines no `get_inputs`", "as in KernelBench"),
        ("p.py", "class Model:\n", "line 1: expected an indented block", "correct it first"),
        ("task.yml", "lang: py\nfiles:\n  - {a: b}\n", "is not Python source", "beside it"),
        ("kernel.cu", "__global__ void f(float* x) {}", "is not Python source", "kbench new solution"),
    ],
)
def test_a_file_that_is_no_problem_says_why(tmp_path, name, text, message, hint):
    with pytest.raises(PluginError, match=message) as caught:
        registry.find_problem(write(tmp_path / name, text), NO_PATHS)
    assert hint in str(caught.value.hint)


def test_a_problem_whose_model_takes_no_arguments_needs_no_function_for_these(tmp_path):
    path = write(tmp_path / "plain.py", "class Model: pass\ndef get_inputs(): return []\n")
    assert registry.find_problem(path, NO_PATHS).name == "plain"


def test_a_problem_given_as_a_solution_is_recognised_and_not_offered_as_its_own(tmp_path, problem):
    for path, offered in ((write(tmp_path / "s.py", PROBLEM), True), (problem.path, False)):
        with pytest.raises(PluginError, match=r"no class `ModelNew`.*it looks like a problem") as caught:
            registry.find_solution(problem, path, NO_PATHS)
        assert (f"name the solution: `{path}:Model`" == caught.value.hint) is (":Model" in caught.value.hint) is offered


ALONE = "import torch\nclass Model: pass\n"
FUNCTION = "import torch\ndef kernel_function(x): return x\n"
SUBMISSION = "import torch\ndef custom_kernel(data): return data\ndef _inner(x): ...\ndef main(): ...\n"
OTHER_NAME = "import torch\nclass Config: pass\nclass FastPlus(torch.nn.Module): pass\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [(FUNCTION, "kernel_function"), (OTHER_NAME, "FastPlus"), (SUBMISSION, "custom_kernel")],
)
def test_a_solution_by_another_name_is_refused_with_what_to_type_and_taken_when_asked(tmp_path, text, name, problem):
    path = write(tmp_path / "mine.py", text)
    with pytest.raises(PluginError, match="defines no class `ModelNew`") as caught:
        registry.find_solution(problem, path, NO_PATHS)
    assert f"mine.py:{name}`" in str(caught.value.hint)
    assert registry.find_solution(problem, f"{path}:{name}", NO_PATHS).attribute == name
    assert registry.find_solution(problem, path, NO_PATHS, entry=name).attribute == name


@pytest.mark.parametrize(
    "text", ["from beside import *\n", "exec(open('beside.txt').read())\n", "globals()['Model' + 'New'] = print\n"]
)
def test_a_file_that_binds_names_unseen_is_run_before_it_is_refused(tmp_path, text, problem):
    path = write(tmp_path / "mine.py", text)
    assert registry.find_solution(problem, path, NO_PATHS).attribute == "ModelNew"
    assert registry.find_problem(path, NO_PATHS).name == "mine"


def test_a_solution_in_the_problems_own_file_comes_first(tmp_path):
    both = write(tmp_path / "both.py", PROBLEM + "class ModelNew: pass\n")
    write(tmp_path / "both" / "other.py", SOLUTION)
    problem = registry.find_problem(both, NO_PATHS)
    assert [one.name for one in registry.solutions(problem, NO_PATHS)][:2] == ["both", "other"]
    assert registry.find_solution(problem, "both", NO_PATHS).path == both
    (chosen,) = plan.choose_solutions(problem, [], "cpu", NO_PATHS)
    assert (chosen.name, chosen.attribute) == ("both", "ModelNew")
    both.write_text("class Model(")
    assert "both" not in [one.name for one in registry.solutions(problem, NO_PATHS)]


def test_two_candidates_are_not_chosen_between(tmp_path, problem):
    with pytest.raises(PluginError, match="defines no class `ModelNew`") as caught:
        registry.find_solution(problem, write(tmp_path / "mine.py", ALONE + FUNCTION), NO_PATHS)
    mine = tmp_path / "mine.py"
    assert caught.value.hint == f"name the solution: `{mine}:Model`, or `{mine}:kernel_function`"


def test_model_is_the_solution_where_it_is_the_only_class(tmp_path, problem):
    found = registry.find_solution(problem, write(tmp_path / "mine.py", ALONE), NO_PATHS)
    assert (found.name, found.attribute) == ("mine", "Model")
    with pytest.raises(PluginError, match="defines no class `ModelNew`"):
        registry.find_solution(problem, write(tmp_path / "two.py", ALONE + "class Other: pass\n"), NO_PATHS)


def test_what_runs_as_a_script_alone_is_no_constant(tmp_path):
    text = 'rows = 4\nif __name__ == "__main__":\n    rows = 8\n    test = 1\nif rows:\n    cols = 2\n'
    assert source.parse(write(tmp_path / "mine.py", text)).constants() == {"rows": 4, "cols": 2}


def test_a_broken_file_stays_in_the_listing_and_says_so(tmp_path):
    write(tmp_path / "broken.py", "def f(:\n")
    write(tmp_path / "unrelated.py", "x = 1\n")
    mine = [e for e in registry.problems(Settings(paths=(tmp_path,))) if e.origin == "settings"]
    assert [(e.name, e.summary) for e in mine] == [("broken", "unusable: line 1: invalid syntax")]


def test_constants_follow_arithmetic_and_skip_what_must_run(tmp_path):
    text = (
        "import torch\nbatch = 16\nwide = batch * 2**10 // 3\nshape = (batch, [wide, -1.5], {'k': None})\n"
        "a, b = 1, 2\ndtype = torch.float32\nhuge = 9**9**9\n_private = 3\nbatch2: int = 4\n"
        "shadow = 1\nshadow = torch.ones(1)\nzero = 1 / 0\n"
    )
    constants = source.parse(write(tmp_path / "c.py", text)).constants()
    wide = 16 * 2**10 // 3
    assert constants == {
        "batch": 16,
        "wide": wide,
        "shape": (16, [wide, -1.5], {"k": None}),
        "a": 1,
        "b": 2,
        "dtype": "float32",
        "batch2": 4,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n = 1\nCASES = make()\n", "line 2: CASES is no literal, and this process runs no file"),
        ("from shapes import CASES\n", "line 1: CASES is no literal"),
        ("n = 1\nCASES = {'a': {}}\nfor m in (1, 2):\n    CASES[str(m)] = {'n': m}\n", "line 2: CASES is no literal"),
        ("n = 1\nCASES = {'a': {'n': 2, 'weight': 0}}\n", "the weight of case `a` is 0, not a positive number"),
        ("CASES = [1]\n", "CASES is a list, not a dictionary of cases"),
        ("CASES = {}\n", "CASES has no case"),
        ("CASES = {'default': 3}\n", "'default': 3 maps no name to a dictionary of constants"),
        ("batch_size = 2\nCASES = {'s': {'batchsize': 1}}\n", "case `s` sets `batchsize`"),
    ],
)
def test_bad_cases_are_refused_with_their_line(tmp_path, monkeypatch, text, message):
    monkeypatch.setattr("kbench.catalog.source.COMPUTE", [])
    with pytest.raises(PluginError, match=message):
        _ = source.parse(write(tmp_path / "c.py", text)).cases


def test_cases_read_names_and_default_to_one(tmp_path):
    text = "n = 8\nCASES: dict = {'big': {'n': 2 * n}}\n"
    assert source.parse(write(tmp_path / "c.py", text)).cases == {"big": {"n": 16}}
    assert source.parse(write(tmp_path / "d.py", "n = 8\n")).cases == {"default": {}}


CLASS = "\nclass ModelNew: pass\n"
DOUBLINGS = "a = ('cpu',)\n" + "a = (a, a)\n" * 40


@pytest.mark.parametrize(
    ("text", "constants"),
    [
        (DOUBLINGS + "b = {a: 1}\nc = 3\n", {"c": 3}),
        ("a = 1 << 4000\na = a * a\nb = 2\n", {"b": 2}),
        ("a = 0x" + "f" * 2000 + "\nb = 2\n", {"b": 2}),
        ("a = [0] * 10**9\nb = 'x' * 10**9\nc = 10**10**9\nd = 1 << 10**9\ne = '%99999999d' % 3\n", {}),
        ("a = 1e308 * 10\nb = 2.0**4000\nc = 1 // 0.0\nd = {[1]: 2}\n", {"a": float("inf")}),
        ("a = {" + ", ".join(f"{n * (2**61 - 1)}: 1" for n in range(50_000)) + "}\nb = 2\n", {"b": 2}),
        ("a = " + "-" * 90 + "1\nb = " + "+".join("1" * 400) + "\n", {"a": 1, "b": 400}),
        ("s = '" + "x" * 10_000 + "'\na = (" + "s, " * 100 + ")\nb = 2\n", {"s": "x" * 10_000, "b": 2}),
        ("a = (" + "(" * 90 + "1" + ",)" * 90 + ",)\na, (b, *c) = 1, (2, 3)\nd, d = 4, 5\n", {"d": 5}),
    ],
    ids=["shared", "products", "digits", "repeated", "floats", "colliding", "nested", "long strings", "unpacked"],
)
def test_what_is_folded_is_bounded(tmp_path, text, constants):
    assert source.parse(write(tmp_path / "c.py", text)).constants() == constants


def test_many_constants_are_folded_in_no_time(tmp_path):
    text = "".join(f"a{n} = {n}\n" for n in range(10_000)) + "DEVICES = 'cpu'\n"
    parsed = source.parse(write(tmp_path / "c.py", text))
    assert parsed.devices == ("cpu",)
    assert len(parsed.constants()) == 10_000


UNUSABLE = {
    "unknown": ("DEVICES = ('tpu',)", "line 1: DEVICES is ('tpu',)"),
    "none": ("DEVICES = ()", "line 1: DEVICES is ()"),
    "number": ("DEVICES = 3", "line 1: DEVICES is 3"),
    "unhashable": ("DEVICES = [['cpu']]", "line 1: DEVICES is [['cpu']]"),
    "mapping": ("DEVICES = {'cpu': 1}", "line 1: DEVICES is {'cpu': 1}"),
    "infinite": ("a = 1e308 * 10\nDEVICES = (a,)", "line 2: DEVICES is (inf,)"),
    "dots": ("import a" + ".a" * 300, "line 1: a name has more than 250 dots"),
    "odd_letters": ("import a" + " \\\n . ℘" * 300, "line 1: a name has more than 250 dots"),
    "brackets": ("a = " + "(" * 1000, "line 1: too many nested parentheses"),
    "signs": ("a = " + "-" * 50_000 + "1", "is not Python source: it nests too deeply"),
    "sum": ("a = " + "+".join("1" * 50_000), "is not Python source"),
    "nul": ("a = '\0'", "null bytes"),
    "large": ("#" * (5 << 20), "is larger than 4 MiB, too large for a source file"),
    "no_text": ("# coding: hex", "is encoded as hex, which kbench does not read"),
    "slow_text": ("# coding: punycode", "is encoded as punycode, which kbench does not read"),
    "unheard_of": ("# coding: nonsense", "unknown encoding: nonsense"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_hostile_file_is_unusable_and_the_others_are_listed(tmp_path, name, problem):
    text, message = UNUSABLE[name]
    write(tmp_path / "plus" / "good.py", SOLUTION)
    path = write(tmp_path / "plus" / f"{name}.py", text + CLASS)
    listed = {e.name: e.summary for e in registry.solutions(problem, NO_PATHS) if e.builtin is None}
    assert listed["good"] == "Fast."
    assert listed[name].startswith("unusable: ")
    assert message in listed[name]
    with pytest.raises(PluginError):
        registry.find_solution(problem, path, NO_PATHS)


@pytest.mark.parametrize(
    "text",
    [
        "if 0: pass\n" + "elif 0: pass\n" * 900 + "DEVICES = 'cpu'",
        "DEVICES = 'cpu'\n" + DOUBLINGS,
        "# coding: utf8\nDEVICES = 'cpu'",
        "# -*- coding: latin1 -*-\nDEVICES = 'cpu'",
        "\ufeffDEVICES = 'cpu'",
    ],
)
def test_what_is_odd_but_readable_is_read(tmp_path, text):
    path = write(tmp_path / "odd.py", text + CLASS)
    found = registry.find_solution(registry.problems(NO_PATHS)[0], path, NO_PATHS)
    assert (found.devices, found.summary) == (("cpu",), "")


@pytest.mark.parametrize(("text", "summary"), [("\n\x1c", ""), ("\n a\nb", "a"), ("x" * 10_000, "x" * 200)])
def test_a_summary_is_a_short_line(tmp_path, text, summary):
    assert source.parse(write(tmp_path / "s.py", f'"""{text}"""\n')).summary == summary


def test_what_is_no_plain_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    (tmp_path / "circle.py").symlink_to("circle.py")
    (tmp_path / "folder.py").mkdir()
    for name in ("pipe", "zero", "circle", "folder"):
        with pytest.raises(PluginError, match="cannot be read"):
            source.parse(tmp_path / f"{name}.py")
    assert registry.problems(Settings(paths=(tmp_path,)))


def test_files_of_one_name_are_with_unique_names_by_their_folders(tmp_path):
    problem = registry.find_problem(write(tmp_path / "add.py", PROBLEM), NO_PATHS)
    paths = [write(tmp_path / place / "my.py", SOLUTION) for place in ("a", "b", "x/c", "y/c")]
    again = tmp_path / "a" / ".." / "b" / "my.py"
    other = write(tmp_path / "other.py", SOLUTION)
    found = [registry.find_solution(problem, path, NO_PATHS) for path in (*paths, again, other)]
    told = registry.with_unique_names(found)
    assert [entry.name for entry in told] == ["a.my", "b.my", "x.c.my", "y.c.my", "other"]
    assert [entry.path for entry in told] == [*paths, other]
    assert registry.with_unique_names(told[:1]) == told[:1]


def test_a_solution_for_another_device_says_how_to_find_one_for_this_one(tmp_path):
    problem = registry.find_problem(write(tmp_path / "my problem.py", PROBLEM), NO_PATHS)
    solution = registry.find_solution(problem, write(tmp_path / "mine.py", SOLUTION), NO_PATHS)
    assert solution.unsupported_on("cuda", problem) is None
    refused = solution.unsupported_on("cpu", problem)
    assert refused.status is Status.SKIPPED
    assert refused.reason == f"runs on cuda, not on cpu; `kbench list '{problem.path}'` shows what does"
    shipped = registry.find_problem("group_norm", NO_PATHS)
    assert "`kbench list group_norm`" in solution.unsupported_on("cpu", shipped).reason


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ([("k", "one"), ("k", "two")], ["one", "two"]),
        ([("k", None), ("k", "one")], ["k", "one"]),
        ([("k", "one")], ["k"]),
        ([("k", "one"), ("x/k", "one")], ["add.k", "x.k"]),
        (
            [("k", "one"), ("k", "two"), ("x/k", "one"), ("x/k", "two")],
            ["add.k.one", "add.k.two", "x.k.one", "x.k.two"],
        ),
    ],
)
def test_parts_of_one_file_are_named_apart(tmp_path, asked, names):
    problem = registry.find_problem(write(tmp_path / "add.py", PROBLEM), NO_PATHS)
    text = SOLUTION + "\n\ndef one(x): ...\n\n\ndef two(x): ...\n"
    paths = {name: write(tmp_path / f"add/{name}.py", text) for name in ("k", "x/k")}
    found = [registry.find_solution(problem, paths[name], NO_PATHS, entry=entry) for name, entry in asked]
    told = [entry.name for entry in registry.with_unique_names(found)]
    assert len(set(told)) == len(told)
    assert told == names
