"""A second look: which files, cases and conditions it measures, with a run that writes times it was told."""

from pathlib import Path

import pytest
from records import make_row, make_run, make_samples

from kbench.catalog.registry import Entry
from kbench.core.errors import MachineError, UsageError
from kbench.core.events import Planned, RunOptions
from kbench.core.levels import Level
from kbench.gate import confirm
from kbench.storage.results import RunWriter
from kbench.storage.settings import Settings

PROBLEM = 'SIZE = 8\nCASES = {"small": {"SIZE": 4}}\nModel = get_inputs = get_init_inputs = None\n'


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A problem with a solution of its own beside it, and one elsewhere whose class is `Model`."""
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    Path("mine/scale.py").write_text(PROBLEM)
    Path("elsewhere").mkdir()
    Path("elsewhere/fast.py").write_text("class ModelNew: pass\nclass Model: pass\n")


@pytest.fixture
def asked(monkeypatch):
    """Collects what is measured: (problem, solutions, options)."""
    calls: list[tuple[Entry, tuple[Entry, ...], RunOptions]] = []

    def run(problem, solutions, options):
        calls.append((problem, tuple(solutions), options))
        with RunWriter(options.results_dir, options.name) as writer:
            for entry in solutions:
                row = make_row(problem=problem.name, solution=entry.name, case=options.cases[0])
                writer.append(row, make_samples(ratio=0.5))
        yield Planned(problem=problem.name, solutions=(), cases=(), device="cuda", processes=3)

    monkeypatch.setattr(confirm.session, "run", run)
    return calls


def look_again(directory: Path, **changes: object):
    """Save a run of one solution, confirm it, and return its key with what came."""
    run = make_run(directory, "pr", {"a.fast": [0.6]}, problem="scale", **changes)
    key = ("scale", "a.fast", "small")
    seen: list[object] = []
    return key, confirm.by_running(run, Settings(), seen.append)((key,), 7), seen


def test_files_given_by_path_are_found_again_under_the_names_of_their_rows(files, asked, tmp_path):
    paths = {"problem_path": "mine/scale.py", "solution_path": "elsewhere/fast.py", "entry": "Model"}
    key, found, seen = look_again(tmp_path, **paths)
    ((problem, (solution,), options),) = asked
    assert problem.path == tmp_path / "mine" / "scale.py"
    assert (solution.name, solution.attribute) == ("a.fast", "Model")
    assert solution.path == tmp_path / "elsewhere" / "fast.py"
    assert (options.processes, options.max_processes, options.cases) == (7, 7, ("small",))
    assert list(found) == [key]
    assert len(seen) == 1, "events are shown"


def test_a_file_that_is_gone_is_named(files, asked, tmp_path):
    with pytest.raises(UsageError, match=r"no solution file elsewhere/gone\.py"):
        look_again(tmp_path, problem_path="mine/scale.py", solution_path="elsewhere/gone.py")


def test_the_conditions_are_those_of_the_rows(files, asked, tmp_path):
    conditions = {
        "overrides": '{"SIZE": 16}',
        "mode": "warm",
        "isolation": "none",
        "required_level": "task",
        "accepted": "frozen_weights",
        "tf32": True,
    }
    look_again(tmp_path, problem_path="mine/scale.py", solution_path="elsewhere/fast.py", **conditions)
    ((_, _, options),) = asked
    assert options.overrides == {"SIZE": 16}
    assert (options.mode, options.trusted, options.level) == ("warm", True, Level.TASK)
    assert (options.accept, options.allow_tf32) == (("frozen_weights",), True)


def test_constants_of_the_case_are_not_given_twice(files, asked, tmp_path):
    look_again(tmp_path, problem_path="mine/scale.py", solution_path="elsewhere/fast.py", overrides='{"SIZE": 4}')
    assert asked[0][2].overrides == {}


def test_another_device_confirms_nothing(files, asked, tmp_path):
    with pytest.raises(MachineError, match="measured on a card of old"):
        look_again(tmp_path, problem_path="mine/scale.py", solution_path="elsewhere/fast.py", gpu_name="a card of old")
