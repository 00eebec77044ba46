"""Units: what they depend on, how their results travel, and judges that are forks of one nursery."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny_corpus
from fakes import CORRECT, ENVIRONMENT, timing
from sweeping import entry

from kbench.catalog import registry
from kbench.catalog.shapes import Derived
from kbench.core.events import RunOptions, StageStarted
from kbench.core.levels import Level
from kbench.core.model import Case, Failed, Finding, Passed, Status
from kbench.devices import selection
from kbench.engine.evaluator import MOST_GROWTH_BYTES, MOST_UNITS, Evaluator, is_worn
from kbench.engine.guard import Guard
from kbench.engine.unit import TimeLeft, Unit, UnitResult, task_key
from kbench.host import nursery_process
from kbench.host.judge_process import JudgeProcess
from kbench.sandbox.process_table import members, processes
from kbench.storage.json_values import plain, reader_of
from kbench.storage.settings import Settings

PROBLEM = tiny_corpus.problem()
REBEL = tiny_corpus.problem(
    "2.0 * x",
    constants="""import os
import sys

n = 16
torch.set_default_dtype(torch.float64)
torch.backends.cudnn.benchmark = True
os.environ["LEFT_BY_A_PROBLEM"] = "1"
sys.modules["left_by_a_problem"] = sys
torch.Tensor.mul = lambda *_: 1 / 0""",
)
"""Changes whatever it can reach."""
LOOKS = tiny_corpus.problem(
    "torch.mul(x, 2)",
    constants="""import os
import sys

n = 16
left = [torch.get_default_dtype() != torch.float32, torch.backends.cudnn.benchmark, "left_by_a_problem" in sys.modules,
        "LEFT_BY_A_PROBLEM" in os.environ, any("rebel" in name for name in sys.modules)]
if any(left):
    raise RuntimeError(f"something is left: {left}")""",
)
"""Raises where something is left of another problem."""
SEARCHES = """import os

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        if "SECRET_OF_THE_CALLER" in os.environ:
            raise RuntimeError("told in its environment")
        pid, maps = os.getpid(), open("/proc/self/maps").read().splitlines()
        needle = b"SECRET_OF_THE" + b"_CALLER"
        found = 0
        with open("/proc/self/mem", "rb", 0) as memory:
            for line in maps:
                if "rw-p" in line and ("[heap]" in line or line.split()[-1] == "0"):
                    first, last = (int(part, 16) for part in line.split()[0].split("-"))
                    memory.seek(first)
                    try:
                        found += memory.read(last - first).count(needle + b"=")
                    except OSError:
                        pass
        if found:
            raise RuntimeError("found in memory")
        return 2 * x
"""
LISTED = """import helper
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        print(f"size {x.shape[-1]}")
        return 2 * x if x.shape[-1] in helper.SIZES else 3 * x
"""
"""Right for the sizes that a second file lists; its log has the sizes."""
CPU = RunOptions(device="cpu", verify_only=True, wait_for_device=False, save=False, level=Level.TASK)


@pytest.fixture
def one(tmp_path: Path) -> Unit:
    problem, solution = tmp_path / "p.py", tmp_path / "s.py"
    for path in (problem, solution):
        path.write_text(PROBLEM)
    return Unit(
        problem=entry(problem),
        solution=entry(solution),
        case=Case(name="default", overrides={"n": 8}),
        process=0,
        options=CPU,
    )


SAME = {
    "process": lambda one: replace(one, process=3),
    "where files go": lambda one: replace(one, options=replace(one.options, results_dir=Path("/x"), save=True)),
    "the name of the run": lambda one: replace(one, options=replace(one.options, name="x")),
    "how the device is named": lambda one: replace(one, options=replace(one.options, device="auto")),
    "a copy of the solution": lambda one: replace(one, solution=replace(one.solution, name="other")),
}
OTHER = {
    "the case's constants": lambda one: replace(one, case=Case(name="default", overrides={"n": 9})),
    "the case's name": lambda one: replace(one, case=Case(name="small", overrides={"n": 8})),
    "the level": lambda one: replace(one, options=replace(one.options, level=Level.GENERAL)),
    "an option": lambda one: replace(one, options=replace(one.options, allow_tf32=True)),
    "what of the file is judged": lambda one: replace(one, solution=replace(one.solution, attribute="Model")),
    "the solution's source": lambda one: edited(one, one.solution.path),
    "the problem's source": lambda one: edited(one, one.problem.path),
}


def edited(one: Unit, path: Path) -> Unit:
    path.write_text(PROBLEM + "# edited\n")
    return one


@pytest.mark.parametrize("change", SAME.values(), ids=SAME)
def test_a_verdict_does_not_depend_on(one, change) -> None:
    assert task_key(one, selection.cpu()) == task_key(change(one), selection.cpu())


@pytest.mark.parametrize("change", OTHER.values(), ids=OTHER)
def test_a_verdict_depends_on(one, change) -> None:
    before = task_key(one, selection.cpu())
    assert before != task_key(change(one), selection.cpu())


def test_a_verdict_depends_on_the_model_of_the_device(one) -> None:
    device = selection.cpu()
    assert task_key(one, device) != task_key(one, replace(device, name="another processor"))
    assert task_key(one, device) == task_key(one, replace(device, uuid="another of the same"))


def test_results_travel_as_json() -> None:
    passed = Passed(correctness=replace(CORRECT, max_abs_err=float("nan")), timings=(timing(),), lacks=("alignment",))
    finding = Finding.note("x", "y")
    for outcome in (passed, Failed(status=Status.CRASHED, reason="signal 11", findings=(finding,))):
        result = UnitResult(outcome=outcome, stage_s={"verify": 0.5}, environment=ENVIRONMENT, weights="name")
        told = json.dumps(plain(result), allow_nan=False)
        read = reader_of(UnitResult).validate_python(json.loads(told))
        assert json.dumps(plain(read)) == told
        assert (type(read.outcome), read.status) == (type(outcome), result.status)


@pytest.mark.parametrize("told", [{}, {"outcome": {"status": "no such"}}, {"outcome": 5}])
def test_nonsense_is_no_result(told) -> None:
    with pytest.raises(ValueError, match="validation error"):
        reader_of(UnitResult).validate_python(told)


WORN = [
    ((1, 0, 0), False),
    ((MOST_UNITS - 1, 5, 5 + MOST_GROWTH_BYTES), False),
    ((MOST_UNITS, 5, 5), True),
    ((1, 5, 6 + MOST_GROWTH_BYTES), True),
]


@pytest.mark.parametrize(("wear", "worn"), WORN)
def test_when_a_judge_is_worn(wear, worn) -> None:
    assert is_worn(*wear) is worn


def test_the_worker_of_the_last_unit_is_no_growth_of_its_judge() -> None:
    """It ends after the answer, beside its parent; until then it holds a share of the case."""
    judge = SimpleNamespace(host_bytes=9 << 30)
    judge.start = lambda: setattr(judge, "host_bytes", 1 << 30)
    bench = SimpleNamespace(judge=judge, units=1, first_bytes=1 << 30)
    assert not Evaluator._is_worn(bench)


@pytest.fixture
def lane(tmp_path, monkeypatch) -> Iterator[Evaluator]:
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SECRET_OF_THE_CALLER", "SECRET_OF_THE_CALLER=1")
    device = selection.cpu()
    with nursery_process.nursery():
        evaluator = Evaluator(device, 0, tmp_path, Guard(device))
        yield evaluator
        evaluator.close()


def parent_of(evaluator: Evaluator) -> int:
    """The process that the judge is a fork of."""
    return processes()[evaluator._bench.judge._child.pid].parent


def begin(
    evaluator: Evaluator, folder: Path, name: str, text: str, solution: str = "eager", options: RunOptions | None = None
) -> Unit:
    """Write a problem, turn to it, and return the unit of a solution of it."""
    options = options or CPU
    (folder / f"{name}.py").write_text(text)
    problem = registry.find_problem(folder / f"{name}.py", Settings())
    chosen = registry.find_solution(problem, solution, Settings())
    evaluator.turn_to(problem, [chosen], options)
    return Unit(problem=problem, solution=chosen, case=Case(name="default"), process=0, options=options)


def finish(
    evaluator: Evaluator, one: Unit, on: str = "", then=lambda: None, left: TimeLeft | None = None
) -> UnitResult:
    """Judge a unit; do something when it reaches a stage."""

    def look(event: object) -> None:
        if isinstance(event, StageStarted) and event.stage == on:
            then()

    evaluator.guard.report = look
    return evaluator.evaluate(one, left=left)


def test_a_problem_leaves_nothing_for_the_next(tmp_path, lane) -> None:
    evaluator = lane
    first = finish(evaluator, begin(evaluator, tmp_path, "rebel", REBEL))
    assert first.cost is not None, "its module ran"
    parent = parent_of(evaluator)
    second = finish(evaluator, begin(evaluator, tmp_path, "looks", LOOKS))
    assert isinstance(second.outcome, Passed), second.outcome
    assert parent_of(evaluator) == parent == nursery_process.present().pid, "both judges are forks of one nursery"
    assert second.stage_s["open"] > 0


def test_another_problem_ends_the_judge_and_an_edited_file_is_another_problem(tmp_path, lane) -> None:
    evaluator = lane
    judges = []
    for name, text in (("one", PROBLEM), ("one", PROBLEM + "\n\nlater = 1\n"), ("two", PROBLEM)):
        assert isinstance(finish(evaluator, begin(evaluator, tmp_path, name, text)).outcome, Passed)
        assert evaluator.problem_path == str(tmp_path / f"{name}.py")
        judges.append(evaluator._bench.judge._child.pid)
        assert not [process for pid in judges[:-1] for process in members(pid) if not process.dead]
    evaluator.close()
    assert not [process for process in members(judges[-1]) if not process.dead]


def test_further_cases_share_the_results_at_other_shapes_until_the_solution_is_edited(tmp_path, lane) -> None:
    helper, options = tmp_path / "helper.py", replace(CPU, level=Level.MODULE, accept=("shapes",))
    helper.write_text("SIZES = {16, 21}")
    (tmp_path / "s.py").write_text(LISTED)
    unit = begin(lane, tmp_path, "p", PROBLEM, str(tmp_path / "s.py"), options)

    def judged(n: int) -> Passed:
        case = Case(name=f"n={n}", overrides={"n": n})
        outcome = finish(lane, replace(unit, case=case, derived=Derived(cases=[{"n": 5}]))).outcome
        assert isinstance(outcome, Passed), outcome
        return outcome

    first, second = judged(16), judged(21)
    assert first.lacks == second.lacks == ("shapes",)
    assert ("size 5" in first.log, "size 5" in second.log) == (True, False)
    helper.write_text("SIZES = range(99)")
    assert (judged(16).lacks, judged(21).lacks) == ((), ())
    helper.write_text("SIZES = {16, 21}")
    assert judged(16).lacks == judged(21).lacks == ("shapes",)


def test_a_worker_finds_nothing_of_the_caller(tmp_path, lane) -> None:
    (tmp_path / "searches.py").write_text(SEARCHES)
    evaluator = lane
    result = finish(evaluator, begin(evaluator, tmp_path, "doubles", PROBLEM, str(tmp_path / "searches.py")))
    assert isinstance(result.outcome, Passed), result.outcome


HANGS = PROBLEM.replace("n = 16", "import time\n\nn = 16\nif n == 16:\n    time.sleep(60)")
GIVEN_UP = "its file was not imported within 1 s; `--import-timeout 2` gives it 2 s"


def test_a_problem_that_hangs_is_given_up_within_its_limit_and_once(tmp_path, lane, monkeypatch) -> None:
    evaluator = lane
    hurried = replace(CPU, import_timeout_s=1.0)
    one = begin(evaluator, tmp_path, "hangs", HANGS, options=hurried)
    first = finish(evaluator, one)
    assert (first.status, first.outcome.reason) == (Status.REFERENCE_FAILED, f"the problem fails: {GIVEN_UP}")
    with monkeypatch.context() as patched:
        patched.setattr(JudgeProcess, "_within_limits", lambda *_: pytest.fail("waits for it again"))
        assert finish(evaluator, one).outcome == first.outcome == evaluator.why_not(one.case, [])
        assert evaluator.call_bytes([one.case]) == ([None], None)
    other = replace(one, case=Case(name="other", overrides={"n": 8}))
    assert isinstance(finish(evaluator, other).outcome, Passed), "with other constants it is another matter"


def test_examining_a_problem_that_hangs_is_given_up_too(tmp_path, lane) -> None:
    evaluator = lane
    hurried = replace(CPU, import_timeout_s=1.0)
    one = begin(evaluator, tmp_path, "hangs", HANGS, options=hurried)
    assert evaluator.derive([], one.case).reason == f"the problem could not be examined: {GIVEN_UP}"
    assert finish(evaluator, one).outcome.reason == f"the problem fails: {GIVEN_UP}"


def test_a_judge_that_is_killed_is_the_harnesss_fault_and_replaced(tmp_path, lane) -> None:
    evaluator = lane
    one = begin(evaluator, tmp_path, "doubles", PROBLEM)

    def kill() -> None:
        os.kill(evaluator._bench.judge._child.pid, signal.SIGKILL)

    broken = finish(evaluator, one, on="verify", then=kill)
    assert (broken.status, broken.retryable) == (Status.HARNESS_ERROR, True)
    assert isinstance(finish(evaluator, one).outcome, Passed)


def test_a_judge_that_raises_is_the_harnesss_fault_and_says_so(tmp_path, lane, monkeypatch) -> None:
    evaluator = lane
    one = begin(evaluator, tmp_path, "doubles", PROBLEM)
    request = Evaluator._request

    def spoiled(*args, **keywords):
        message = request(*args, **keywords)
        message["assignment"]["unknown"] = 1
        return message

    with monkeypatch.context() as patched:
        patched.setattr(Evaluator, "_request", spoiled)
        raised = finish(evaluator, one)
    assert raised.status is Status.HARNESS_ERROR
    assert "TypeError" in raised.outcome.reason
    assert isinstance(finish(evaluator, one).outcome, Passed)


def test_a_nursery_that_is_killed_is_replaced_and_its_judges_end(tmp_path, lane) -> None:
    evaluator = lane
    one = begin(evaluator, tmp_path, "doubles", PROBLEM)
    assert isinstance(finish(evaluator, one).outcome, Passed)
    judge = evaluator._bench.judge._child.pid
    before = nursery_process.present().pid
    os.kill(before, signal.SIGKILL)
    assert isinstance(finish(evaluator, begin(evaluator, tmp_path, "again", PROBLEM)).outcome, Passed)
    assert nursery_process.present().pid != before
    assert not [process for process in members(judge) if not process.dead]


def test_a_judge_whose_own_nursery_was_killed_fails_and_the_next_one_judges(tmp_path, lane) -> None:
    evaluator = lane
    one = begin(evaluator, tmp_path, "doubles", PROBLEM)
    assert isinstance(finish(evaluator, one).outcome, Passed)
    judge = evaluator._bench.judge._child.pid
    (own,) = [pid for pid, process in processes().items() if process.parent == judge]
    os.kill(own, signal.SIGKILL)
    assert finish(evaluator, one).status is Status.HARNESS_ERROR
    evaluator.close()  # as a lane does
    assert isinstance(finish(evaluator, begin(evaluator, tmp_path, "again", PROBLEM)).outcome, Passed)


def test_a_unit_beyond_its_limit_is_a_verdict(tmp_path, lane) -> None:
    evaluator = lane
    hangs = tmp_path / "sleeps.py"
    hangs.write_text("import time\nfrom torch import nn\n\n\nclass ModelNew(nn.Module):\n"
                     "    def forward(self, x):\n        time.sleep(30)\n        return x\n")  # fmt: skip
    stopped = finish(evaluator, begin(evaluator, tmp_path, "one", PROBLEM, str(hangs)), left=TimeLeft(2.0))
    assert stopped.status is Status.TOTAL_TIMEOUT
    assert stopped.outcome.reason == "not judged in 2 s; give it more with `--timeout`"
