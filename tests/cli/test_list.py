"""`kbench list`: names from source text alone, in every format."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from records import make_run

import kbench as package

ROOT = Path(package.__file__).parent.parent


def test_problems_with_their_cases_and_solutions(kbench):
    done = kbench("list")
    assert done.code == 0
    header, *lines = done.out.splitlines()
    assert header.split() == ["problem", "cases", "solutions", "from", "summary"]
    group_norm = next(line for line in lines if line.startswith("group_norm"))
    assert "default cpu small ragged" in group_norm
    assert "cpp_openmp" in group_norm


def test_quiet_lists_names_for_scripts(kbench):
    assert "group_norm" in kbench("list", "-q").out.splitlines()
    assert kbench("list", "group_norm", "-q").out.splitlines()[-3:] == ["eager", "compile", "compile-max-autotune"]


def test_cases_show_every_constant(kbench):
    done = kbench("list", "group_norm", "--cases")
    assert "ragged   the file  batch_size=3 features=15 num_groups=5 dim1=37 dim2=29" in done.out


@pytest.mark.parametrize(("given", "shown"), [("9", "9"), ("2.5", "2.5"), ("1e6", "1e+06")])
def test_a_weight_is_written_as_people_write_it_and_stays_a_number_in_json(kbench, given, shown):
    Path("w.py").write_text(
        f"n = 4\nCASES = {{'a': {{'n': 5, 'weight': {given}}}}}\nclass Model: ...\ndef get_inputs(): return [n]\n"
    )
    _, line, *_ = kbench("list", "w.py", "--cases").out.splitlines()
    assert line.split() == ["a", "the", "file", shown, "n=5"]
    assert kbench("list", "w.py", "--cases", "--json").document["results"][0]["weight"] == float(given)


def test_a_derived_case_says_so_below_the_solutions(kbench):
    Path("relu.py").write_text(
        "dim = 65536\nclass Model: ...\ndef get_inputs(): return [dim]\ndef get_init_inputs(): return []\n"
    )
    *_, default, small = kbench("list", "relu.py").out.splitlines()
    assert default.split() == ["default", "the", "file", "dim=65536"]
    assert small.split() == ["small", "derived", "dim=256"]


@pytest.mark.parametrize("words", [(), ("group_norm",), ("group_norm", "--cases"), ("--runs",)])
def test_keys_of_json_are_words_and_what_is_absent_is_null(kbench, tmp_path, words):
    make_run(tmp_path / "results", "main", {"fast": [0.5]})
    found = kbench("list", *words, "--results", str(tmp_path / "results"), "--json").document["results"]
    assert found
    assert all(key.isidentifier() for entry in found for key in entry)
    assert not [entry for entry in found if entry.get("weight") == ""]


def test_every_format_has_the_same_rows(kbench):
    document = kbench("list", "group_norm", "--json").document
    names = [entry["solution"] for entry in document["results"]]
    rows = kbench("list", "group_norm", "--format", "csv").rows
    markdown = kbench("list", "group_norm", "--format", "md").out.splitlines()
    assert [row["solution"] for row in rows] == names
    assert len(markdown) == len(names) + 2
    assert document["status"] == "ok"


def test_problems_of_the_current_folder_are_listed_as_they_are_typed(kbench):
    Path("softmax.py").write_text("class Model: ...\nget_inputs = get_init_inputs = None\n")
    Path("archive.py").write_text("class Model: ...\n")
    Path("broken.py").write_text("def\n")
    Path("softmax").mkdir()
    Path("softmax/online.py").write_text("class ModelNew: ...\n")
    found = {entry["problem"]: entry for entry in kbench("list", "--json").document["results"]}
    assert found["softmax.py"]["solutions"] == ["online"]
    assert found["softmax.py"]["from"] == "path"
    assert not {"archive.py", "broken.py"} & set(found)
    assert kbench("list", "softmax.py", "-q").code == 0


def test_problems_of_one_name_are_listed_by_their_paths(kbench):
    for folder in ("a", "b"):
        Path(folder).mkdir()
        Path(folder, "twin.py").write_text("class Model: pass\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n")
    Path("pyproject.toml").write_text('[tool.kbench]\npaths = ["a", "b"]\n')
    listed = kbench("list", "-q").out.splitlines()
    assert [name for name in listed if "twin" in name] == ["a/twin.py", "b/twin.py"]


def test_no_runs_is_said_on_stderr(kbench):
    done = kbench("list", "--runs")
    assert (done.code, done.out, done.err) == (
        0,
        "",
        "no run is saved in results\n\nhint: `kbench run PROBLEM` saves one\n",
    )


def test_a_sweep_of_many_takes_one_short_line(kbench):
    """Its line named every problem and every solution; `-v` and the other formats still do."""
    names = {f"kernel_{number}": [0.5] for number in range(40)}
    make_run(Path("results"), "night", names)
    _, line = kbench("list", "--runs").out.splitlines()
    assert "kernel_0 kernel_1 kernel_2 and 37 more" in line
    assert len(line) < 130
    assert re.search(r" \d{4}-\d\d-\d\d \d\d:\d\d  ", line), "started: to the minute"
    assert "kernel_39" in kbench("list", "--runs", "-v").out
    (run,) = kbench("list", "--runs", "--json").document["results"]
    assert run["solutions"] == [*names]
    assert "kernel_39" in kbench("list", "--runs", "--format", "csv").out


@pytest.mark.parametrize("arguments", [["list"], ["list", "group_norm"], ["--help"], ["explain"]])
def test_torch_and_plugins_stay_unimported(arguments):
    code = (
        "import sys\nfrom kbench.cli.app import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit: pass\n"
        "loaded = {'torch', 'pandas', 'numpy', 'kbench.engine'} & set(sys.modules)\n"
        "loaded |= {m for m in sys.modules if m.startswith(('kbench.problems.', 'kbench.solutions.'))}\n"
        "sys.exit(f'imported {loaded}' if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
