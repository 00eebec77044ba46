"""Bad input that needs no child process to be found: each has its message and its exit code."""

import json
import os
from pathlib import Path

import pytest

from kbench.core.errors import UsageError
from kbench.devices import selection
from kbench.sweep.journal import Journal


def rejected(kbench, *arguments):
    """Run twice, for people and for programs, and return exit code and message."""
    people, programs = kbench(*arguments), kbench(*arguments, "--json")
    document = json.loads(programs.out)
    assert people.code == programs.code == document["exit_code"]
    assert people.out == ""
    assert people.err.splitlines()[-1].startswith(("error: ", "hint: "))
    assert document["reason"] in people.err
    return people.code, people.err


def test_what_was_typed_is_quoted_on_one_line(kbench):
    done = kbench("verify", "no\nthere.py", "eager")
    assert done.err == "error: no problem file no\\nthere.py\n\nhint: check the path\n"


@pytest.mark.parametrize(
    ("arguments", "helped"),
    [(("sweep", "--resume"), "sweep "), (("gate", "--slower"), "gate "), (("--nonsense",), "")],
)
def test_an_option_that_lacks_its_value_or_is_none_names_the_help(kbench, arguments, helped):
    assert kbench(*arguments).err.endswith(f"\nhint: `kbench {helped}--help` shows what it takes\n")


@pytest.mark.parametrize("command", ["run", "verify"])
@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("grup_norm",), "no problem named `grup_norm`", "did you mean `group_norm`?"),
        (("group_norm", "egaer"), "has no solution named `egaer`", "did you mean `eager`?"),
        (("group_norm", "eager", "--case", "smal"), "has no case `smal`", "did you mean `small`?"),
        (("group_norm", "eager", "--set", "dim3=4"), "has no constant `dim3`", "did you mean `dim"),
        (("group_norm", "eager", "--device", "tpu"), "`tpu` is not a device", "cuda:INDEX"),
    ],
)
def test_names(kbench, command, arguments, message, hint):
    device = () if "--device" in arguments else ("--device", "cpu")
    code, err = rejected(kbench, command, *arguments, *device)
    assert code == 2
    assert message in err
    assert hint in err


def test_with_self_all_names_are_problems(kbench):
    """A shell makes several arguments of a glob that is not quoted."""
    code, err = rejected(kbench, "sweep", "group_norm", "grup_norm", "--self", "--devices", "cpu")
    assert code == 2
    assert "no problem named `grup_norm`" in err


def test_a_name_that_no_file_can_have(kbench):
    code, err = rejected(kbench, "verify", "group_norm", f"{'x' * 5000}.py", "--device", "cpu")
    assert code == 2
    assert "too long for a file" in err


def test_graphs_need_a_gpu(kbench):
    code, err = rejected(kbench, "run", "group_norm", "eager", "--device", "cpu", "--mode", "graph")
    assert code == 2
    assert "`--mode graph` needs a GPU, and this run is on a CPU" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--quick", "--processes", "5"), "`--quick` runs one process and contradicts `--processes`"),
        (("--quick", "--max-processes", "5"), "`--quick` runs one process and contradicts `--max-processes`"),
        (("--processes", "3", "--max-processes", "1"), "`--processes 3` is more than `--max-processes 1`"),
    ],
)
def test_counts_of_processes_that_contradict(kbench, arguments, message):
    code, err = rejected(kbench, "run", "group_norm", "eager", *arguments)
    assert code == 2
    assert message in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "defines no class `Model`"),
        ("class Model:\n", "line 1: expected an indented block"),
        ("class ModelNew: pass\n", "it looks like a solution"),
        (
            "class Model: pass\nCASES = {'a': {'typo': 1}}\ndef get_inputs(): pass\ndef get_init_inputs(): pass\n",
            "`typo`",
        ),
    ],
)
def test_problem_files(kbench, text, message):
    Path("p.py").write_text(text)
    code, err = rejected(kbench, "run", "./p.py", "eager", "--device", "cpu")
    assert code == 2
    assert message in err


def test_no_gpu(kbench, monkeypatch):
    monkeypatch.setattr(selection, "visible_gpus", list)
    code, err = rejected(kbench, "run", "group_norm", "eager", "--device", "cuda")
    assert code == 3
    assert "no CUDA device found" in err


def test_results_that_cannot_be_written(kbench):
    Path("file").write_text("")
    code, err = rejected(kbench, "run", "group_norm", "eager", "--device", "cpu", "--results", "file/below")
    assert code == 3
    assert "elsewhere with `--results DIR`" in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_results_folder(kbench):
    Path("locked").mkdir(mode=0o500)
    assert rejected(kbench, "run", "group_norm", "eager", "--device", "cpu", "--results", "locked")[0] == 3


def test_nothing_fits_the_isolation_that_was_asked_for(kbench):
    code, err = rejected(kbench, "run", "group_norm", "eager", "--device", "cpu", "--isolation", "99")
    assert code == 3
    assert "isolation 99 was asked for" in err


def test_an_error_moves_no_cursor(kbench, tmp_path):
    path = tmp_path / "a\x1b[2J\x9b2Jb.csv"
    path.write_text("nonsense\n")
    told = kbench("show", str(path))
    assert told.code == 2
    assert r"a\x1b[2J\x9b2Jb.csv is not a kbench results file" in told.err
    assert not {"\x1b", "\x9b"} & set(told.err)


def test_the_name_of_a_solution_is_no_file_to_watch(kbench):
    done = kbench("watch", "group_norm", "cpp_openmp")
    assert done.code == 2
    assert "`cpp_openmp` is a name, and a file is watched" in done.err
    assert "group_norm/cpp_openmp.py`" in done.err


def test_the_order_of_problem_and_solution(kbench):
    Path("s.py").write_text("class ModelNew: pass\n")
    code, err = rejected(kbench, "verify", "./s.py", "./p.py", "--device", "cpu")
    assert code == 2
    assert "hint: the problem comes first: `kbench verify PROBLEM s.py`" in err


@pytest.mark.parametrize("arguments", [("folder", "eager"), ("group_norm", "folder")])
def test_a_folder_whose_name_looks_like_no_path(kbench, arguments):
    Path("folder").mkdir()
    code, err = rejected(kbench, "verify", *arguments, "--device", "cpu")
    assert code == 2
    assert "folder is a folder, not a" in err


@pytest.mark.parametrize("content", [b"# caf\xe9\nclass Model: pass\n", bytes(range(256))])
def test_a_file_in_another_encoding(kbench, content):
    Path("p.py").write_bytes(content)
    code, err = rejected(kbench, "verify", "./p.py", "eager", "--device", "cpu")
    assert code == 2
    assert "hint: save it as UTF-8" in err


def test_trusted_code_has_no_sandbox_to_ask_for(kbench):
    arguments = ("group_norm", "eager", "--device", "cpu", "--trusted", "--isolation", "4")
    code, err = rejected(kbench, "run", *arguments)
    assert code == 2
    assert "`--trusted` runs without a sandbox, and isolation 4 was asked for" in err


@pytest.mark.parametrize(("devices", "quoted"), [("gpu0", "`gpu0` is not a device"), ("0", "`--devices cpu`")])
def test_a_sweeps_devices_are_told_by_its_own_option(kbench, monkeypatch, devices, quoted):
    monkeypatch.setattr(selection, "visible_gpus", list)
    _, err = rejected(kbench, "sweep", "group_norm", "--self", "--devices", devices, "--no-save")
    assert quoted in err


def test_a_results_folder_that_is_a_file(kbench):
    Path("notes.txt").write_text("")
    code, err = rejected(kbench, "run", "group_norm", "eager", "--device", "cpu", "--results", "notes.txt")
    assert code == 3
    assert "there is a file of that name where a folder is needed" in err


@pytest.mark.parametrize("name", ["@last", "@latset"])
def test_a_misspelt_latest_run(kbench, name):
    _, err = rejected(kbench, "show", name)
    assert "did you mean `@latest`?" in err


@pytest.fixture
def begun_sweep(kbench, monkeypatch) -> str:
    """A sweep that ended before its first verdict."""
    monkeypatch.setattr("kbench.cli.sweep._follow", lambda *_: (_ for _ in ()).throw(UsageError("ended")))
    with monkeypatch.context() as patched:
        patched.setattr("kbench.cli.sweep._work", _write_header)
        kbench("sweep", "group_norm", "--self", "--until", "verify", "--devices", "cpu", "--name", "one")
    return "one"


def _write_header(_flags, begun, *_):
    with Journal(begun.path, begun.header):
        pass
    raise UsageError("ended")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["clamp", "--self"], "`--resume one` judges what that sweep was started with, and other names are given"),
        (["group_norm", "eager"], "`--resume one` judges what that sweep was started with, and other names are given"),
        (["--until", "time"], "`--until` is given, and the sweep `one` was started with `--until verify`"),
        (["--quick"], "`--quick` is given, and the sweep `one` was started without it"),
        (["group_norm", "--self", "--eval"], "`--eval` is given, and the sweep `one` was started without it"),
    ],
)
def test_a_resumed_sweep_is_the_one_that_was_started(kbench, begun_sweep, more, told):
    code, err = rejected(kbench, "sweep", *more, "--resume", begun_sweep, "--devices", "cpu")
    assert code == 2
    assert told in err


@pytest.mark.parametrize(
    "more", [[], ["group_norm", "--self"], ["group_norm", "--self", "--until", "verify"], ["--self"]]
)
def test_a_sweep_is_resumed_by_the_command_that_started_it(kbench, begun_sweep, more):
    assert "error: ended" in kbench("sweep", *more, "--resume", begun_sweep, "--devices", "cpu").err


@pytest.mark.parametrize("target", ["loop.py", "gone.py"])
def test_a_link_that_leads_nowhere(kbench, target):
    Path("loop.py").symlink_to(target)
    code, err = rejected(kbench, "verify", "./loop.py", "eager", "--device", "cpu")
    assert code == 2
    assert "loop.py is a link that leads to no file" in err


@pytest.mark.parametrize("path", ["/dev/stdin", "/proc/self/fd/0", "/dev/shm/kernel.py"])
def test_what_another_process_would_read_otherwise(kbench, path):
    """A worker's standard input is not kbench's."""
    code, err = rejected(kbench, "verify", "group_norm", path, "--device", "cpu")
    assert code == 2
    assert f"{path} is not the same file in every process" in err


@pytest.mark.parametrize(("value", "hint"), [("10**9", "write the value itself"), ("ab", "text needs quotes")])
def test_a_value_that_is_no_literal(kbench, value, hint):
    code, err = rejected(kbench, "verify", "group_norm", "eager", "--device", "cpu", "--set", f"dim1={value}")
    assert code == 2
    assert hint in err
