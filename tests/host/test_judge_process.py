"""The time limits of a judge that opens a problem: which step has which, and what counts against none."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import CORRECT

from kbench.catalog.problem import Step
from kbench.core.events import RunOptions
from kbench.core.model import Case, Failed, Passed, Status
from kbench.devices import selection
from kbench.host import judge_process
from kbench.host.context import RunContext
from kbench.host.judge_process import JudgeProcess
from kbench.process.child_error import ChildError
from kbench.storage.json_values import plain

WAIT = {"progress": True, "stage": "wait"}
PROBLEM = SimpleNamespace(path=Path("problem.py"))


class Child:
    """Sends the messages that it is given, and then nothing more."""

    log = ""

    def __init__(self, *_: object):
        self.channel = SimpleNamespace(send=lambda _: None)
        self.messages: list[dict[str, Any]] = []
        self.limits_s: list[float] = []
        self.killed = self.has_ended = False

    def post(self, _message) -> None:
        self.limits_s = []

    def receive(self, timeout_s) -> dict[str, Any]:
        self.limits_s.append(timeout_s)
        if len(self.limits_s) <= len(self.messages):
            return self.messages[len(self.limits_s) - 1]
        if self.has_ended:
            raise ChildError(Status.EXITED, "the process exited with code 1 before it answered", "ImportError: numpy")
        raise ChildError(Status.CALL_TIMEOUT, "no answer within 600 s")

    def kill(self) -> None:
        self.killed = True


def step(name: Step) -> dict[str, Any]:
    return {"progress": True, "step": name.value}


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(judge_process, "Child", Child)
    monkeypatch.setattr(judge_process.nursery_process, "present", lambda: None)

    def make(import_s: float = 60.0, **of_a_run) -> JudgeProcess:
        device = replace(selection.cpu(), kind=of_a_run.pop("kind", "cpu"))
        options = RunOptions(import_timeout_s=import_s, **of_a_run)
        context = RunContext(options=options, device=device, rung=0, scratch=tmp_path)
        return JudgeProcess(context, problem=PROBLEM, files=[], expected=[])

    return make


SEEN = (
    (60.0, [], "the judge ended: no answer within 600 s", [600.0]),
    (60.0, [step(Step.IMPORT)], "its file was not imported within 60 s; `--import-timeout 120` gives it 120 s", [60.0]),
    (
        60.0,
        [WAIT, WAIT, step(Step.IMPORT), step(Step.CONSTRUCT)],
        "its `Model` was not constructed within 300 s; `--import-timeout 120` gives it 600 s",
        [600.0, 600.0, 60.0, 300.0],
    ),
    (
        60.0,
        [step(Step.CONSTRUCT), step(Step.CALL)],
        "its inputs were not made and its `Model` not called within 600 s; `--import-timeout 120` gives it 1200 s",
        [300.0, 600.0],
    ),
    (
        5.0,
        [step(Step.CONSTRUCT), step(Step.CALL)],
        "its inputs were not made and its `Model` not called within 600 s; `--import-timeout 120` gives it 1200 s",
        [25.0, 600.0],
    ),
)


@pytest.mark.parametrize(("import_s", "messages", "reason", "limits_s"), SEEN)
def test_each_step_has_its_limit_and_who_waits_has_time(judge, import_s, messages, reason, limits_s) -> None:
    one = judge(import_s)
    one._child.messages = messages
    with pytest.raises(ChildError) as error:
        one.open(PROBLEM, Case(name="default"))
    assert one._child.limits_s[-len(limits_s) :] == limits_s
    assert one._child.killed
    assert error.value.reason.endswith(reason)
    assert error.value.status is (Status.REFERENCE_FAILED if messages else Status.HARNESS_ERROR)
    assert bool(one.stuck) == bool(messages)


def test_other_constants_that_hang_say_nothing_of_the_case(judge) -> None:
    one = judge(60.0)
    one._child.messages = [step(Step.IMPORT), step(Step.CALL), step(Step.IMPORT)]
    assert "was not imported within 60 s" in one.derive(PROBLEM, {}).reason
    assert (one.stuck, one.is_overdue) == ("", True)


@pytest.mark.parametrize(
    ("messages", "status"),
    [
        ([], Status.HARNESS_ERROR),
        ([WAIT], Status.HARNESS_ERROR),
        ([step(Step.IMPORT)], Status.REFERENCE_FAILED),
        ([step(Step.CONSTRUCT), step(Step.CALL)], Status.REFERENCE_FAILED),
    ],
)
def test_a_judge_that_ends_before_the_problem_has_run_is_no_fault_of_the_problem(judge, messages, status) -> None:
    one = judge(60.0)
    one._child.messages = messages
    one._child.has_ended = True
    with pytest.raises(ChildError, match="exited with code 1") as error:
        one.open(PROBLEM, Case(name="default"))
    assert (error.value.status, error.value.log) == (status, "ImportError: numpy")


@pytest.mark.parametrize(
    ("kind", "processors", "waits", "threads"),
    [("cpu", 8, True, 8), ("cpu", 8, False, 2), ("cpu", 2, False, 1), ("cuda", 8, False, 8)],
)
def test_a_judge_beside_others_leaves_them_processors(monkeypatch, judge, kind, processors, waits, threads):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(processors)))
    assert judge(kind=kind, wait_for_device=waits)._worker_config([], [])["threads"] == threads


VERIFIES = {"progress": True, "stage": "verify"}
LATE = {"progress": True, "step": Step.CONSTRUCT.value, "where": "n=3"}
PASS = {"outcome": plain(Passed(correctness=CORRECT, timings=())), "weights": "name"}
RAISED = {"error": {"stage": "judge", "type": "KeyError", "message": "x", "traceback": "here"}}
ANSWERS = (
    ([VERIFIES, VERIFIES, PASS], "passed", "", [("verify", True), ("verify", True)]),
    ([VERIFIES, RAISED], "harness_error", "KeyError: x", [("verify", True), ("verify", False)]),
    ([{"unbuilt": "starts nvcc"}], "not_verified", "not built: it starts nvcc", []),
    ([VERIFIES], "harness_error", "no answer within 600 s", [("verify", True)]),
    ([VERIFIES, step(Step.CALL)], "harness_error", "no answer within 600 s", [("verify", True)]),
    ([LATE], "reference_failed", "the problem fails: its `Model` was not constructed at n=3 within", []),
    ([{"solution_observed": {"files": 3}, **PASS}], "harness_error", "the judge answered nonsense", []),
)


@pytest.mark.parametrize(("messages", "status", "reason", "stages"), ANSWERS)
def test_an_evaluation_ends_in_one_answer(judge, messages, status, reason, stages) -> None:
    one = judge(60.0)
    one._child.messages = messages
    seen = list[tuple[str, bool]]()
    found = one.evaluate({"op": "evaluate"}, lambda stage, ok, _elapsed_s: seen.append((stage, ok)))
    assert seen == stages
    if isinstance(found.outcome, Failed):
        assert found.outcome.status.value == status
        assert found.outcome.reason.startswith(reason)
    else:
        assert (status, found.weights) == ("passed", "name")
    assert bool(found.unbuilt) == ("unbuilt" in messages[-1])
