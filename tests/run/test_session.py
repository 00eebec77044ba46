"""A run's parent with a judge that is none: whose turn it is, how often, and what becomes of a judge that ends."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import CORRECT, ENVIRONMENT, timing

from kbench.children.child import ChildError
from kbench.core.events import Judged, LargeCases, RunOptions
from kbench.core.forecast import Forecast
from kbench.core.model import Case, Cost, Failed, Outcome, Passed, Status
from kbench.host.judge_process import OpenedCase
from kbench.plugins import registry
from kbench.plugins.registry import Entry
from kbench.plugins.shapes import Derived
from kbench.run import session as verb
from kbench.storage.settings import Settings
from kbench.units import evaluator

PROBLEM = """
import torch
from torch import nn
n = 4
CASES = {"default": {}, "small": {"n": 2}}
class Model(nn.Module):
    def forward(self, x):
        return 2 * x
def get_inputs():
    return [torch.rand(n)]
def get_init_inputs():
    return []
"""
SOLUTION = "from torch import nn\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return x + x\n"


class FakeJudge:
    """Answers with what a test has planned, and writes down what it was asked."""

    every: Sequence["FakeJudge"] = ()
    asked: Sequence[tuple[Any, ...]] = ()
    host_bytes = 0
    answer: Callable[["FakeJudge", str, int], Outcome]
    refused: str = ""
    sizes: Mapping[str, int] = {}

    def __init__(self, *_: Any, expected: Sequence[Entry], **__: Any):
        self.expected = [entry.name for entry in expected]
        self.has_ended = self.closed = False
        self.holder = self.weights = ""
        self.outcome: Outcome = Failed(status=Status.NOT_VERIFIED, reason="not evaluated")
        self.number = len(FakeJudge.every)
        FakeJudge.every = (*FakeJudge.every, self)

    def note(self, *what: Any) -> None:
        FakeJudge.asked = (*FakeJudge.asked, what)

    def derive(self, _problem: Entry) -> Derived:
        return Derived(cases=[{"n": 3}])

    def call_bytes(self, _problem: Entry, cases: Sequence[Case]) -> tuple[list[int | None], int | None]:
        return [FakeJudge.sizes.get(case.name) for case in cases], 24 * 10**9

    def open(self, _problem: Entry, case: Case) -> OpenedCase:
        self.note("open", case.name)
        if case.name == FakeJudge.refused:
            raise ChildError(Status.REFERENCE_FAILED, "no inputs today")
        return OpenedCase(environment=ENVIRONMENT, cost=Cost(dram_bytes=64, flops=8), eval_mode=False)

    def request(self, _problem: Entry, entry: Entry, *, process: int, following: Sequence[Entry], **more: Any) -> Any:
        told = {
            "process": process,
            "others": sorted(more["other_cases"]),
            "derived": more["derived"].cases,
            "deadline_s": more["deadline_s"],
        }
        return {"name": entry.name, "next": [e.name for e in following], "assignment": told}

    def evaluate(self, message: Any) -> Iterator[tuple[str, bool, float | None]]:
        process = message["assignment"]["process"]
        self.note(message["name"], process, message["next"], message["assignment"])
        yield "time", True, None
        self.outcome = FakeJudge.answer(self, message["name"], process)
        yield "time", isinstance(self.outcome, Passed), 0.5

    def close(self) -> None:
        self.closed = True


def passed(process: int) -> Passed:
    noisy = timing(process)
    samples = tuple(
        replace(s, t_event_ns=s.t_event_ns + (40_000 * process if s.arm == "candidate" else 0)) for s in noisy.samples
    )
    return Passed(correctness=CORRECT, timings=(replace(noisy, samples=samples),))


@pytest.fixture(autouse=True)
def court(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(evaluator, "JudgeProcess", FakeJudge)
    monkeypatch.setattr(verb, "nursery_process", SimpleNamespace(nursery=contextlib.nullcontext))
    monkeypatch.setattr(FakeJudge, "every", ())
    monkeypatch.setattr(FakeJudge, "asked", ())
    monkeypatch.setattr(FakeJudge, "refused", "")
    monkeypatch.setattr(FakeJudge, "sizes", {})
    monkeypatch.setattr(FakeJudge, "answer", lambda _self, _name, process: passed(process), raising=False)


def judge(folder: Path, *names: str, **options: Any) -> list[Judged]:
    (folder / "doubles.py").write_text(PROBLEM)
    for name in names:
        (folder / f"{name}.py").write_text(SOLUTION)
    problem = registry.find_problem(folder / "doubles.py", Settings())
    entries = [registry.find_solution(problem, folder / f"{name}.py", Settings()) for name in names]
    chosen = {"device": "cpu", "trusted": True, "save": False, "cases": ("small",), "wait_for_device": False, **options}
    return [event for event in verb.run(problem, entries, RunOptions(**chosen)) if isinstance(event, Judged)]


def told(folder: Path, **options: Any) -> list[LargeCases]:
    """Return what a run of `eager` at the default case tells before it begins."""
    path = folder / "doubles.py"
    path.write_text(PROBLEM)
    problem = registry.find_problem(path, Settings())
    entry = registry.find_solution(problem, "eager", Settings())
    given = RunOptions(device="cpu", trusted=True, cases=("default",), wait_for_device=False, **options)
    found: list[LargeCases] = []
    for event in verb.run(problem, [entry], given):
        if isinstance(event, LargeCases):
            assert not any(asked[0] == "open" for asked in FakeJudge.asked), "nothing is made yet"
            found.append(event)
    return found


def test_large_cases_are_told_before_they_are_made_with_the_way_out(tmp_path: Path) -> None:
    FakeJudge.sizes = {"default": 7_500_000_000, "small": 25_000_000}
    (event,) = told(tmp_path, save=False, results_dir=tmp_path)
    assert event == LargeCases(
        cases=(Forecast(device="cpu", case="default", call_bytes=7_500_000_000),),
        small=Forecast(device="cpu", case="small", call_bytes=25_000_000),
        memory_bytes=24 * 10**9,
    )


def test_nothing_is_told_of_cases_that_are_not_large_or_of_which_nothing_is_known(tmp_path: Path) -> None:
    FakeJudge.sizes = {"default": 25_000_000}
    assert told(tmp_path, save=False) == []
    FakeJudge.sizes = {}
    assert told(tmp_path, save=False) == []


def turns() -> list[tuple[str, int]]:
    return [asked[:2] for asked in FakeJudge.asked if asked[0] != "open"]


def test_solutions_take_turns_and_the_order_is_turned_about(tmp_path: Path) -> None:
    judge(tmp_path, "a", "b", processes=3, max_processes=3)
    assert turns() == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)]
    assert len(FakeJudge.every) == 1, "one judge for all of it"
    assert [asked for asked in FakeJudge.asked if asked[0] == "open"] == [("open", "small")], "and one opening"


def test_it_says_who_comes_next(tmp_path: Path) -> None:
    judge(tmp_path, "a", "b", processes=2, max_processes=2)
    assert FakeJudge.every[0].expected == ["a", "b"]
    first, second, *_ = [asked[2] for asked in FakeJudge.asked if asked[0] != "open"]
    assert first[0] == "b", "and then, in the next process"
    assert second[:2] == ["b", "a"]


def test_the_first_process_alone_sees_the_other_cases(tmp_path: Path) -> None:
    judge(tmp_path, "a", cases=("default",), processes=3, max_processes=3)
    told = [asked[3] for asked in FakeJudge.asked if asked[0] == "a"]
    assert [one["others"] for one in told] == [["small"], [], []]
    assert [one["derived"] for one in told] == [[{"n": 3}]] * 3, "these are the judge's to leave out"


def test_noise_asks_for_more_processes_up_to_a_limit(tmp_path: Path) -> None:
    (one,) = judge(tmp_path, "a", processes=2, max_processes=5)
    assert len(turns()) == 5
    assert isinstance(one.outcome, Passed)
    assert len(one.outcome.timings) == 5
    assert [row.process for row in one.rows] == list(range(5))
    assert one.stage_s["time"] == pytest.approx(2.5), "every process counts"


def test_a_row_has_the_errors_of_its_own_process_and_the_case_the_worst(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [2e-6, 5e-6, 1e-6]

    def answer(_self: FakeJudge, _name: str, process: int) -> Outcome:
        return replace(passed(process), correctness=replace(CORRECT, max_abs_err=errors[process]))

    monkeypatch.setattr(FakeJudge, "answer", answer)
    (one,) = judge(tmp_path, "a", processes=3, max_processes=3)
    assert [row.max_abs_err for row in one.rows] == errors
    assert isinstance(one.outcome, Passed)
    assert one.outcome.correctness.max_abs_err == 5e-6


def test_quiet_times_need_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeJudge, "answer", lambda _self, _name, _process: passed(0))
    judge(tmp_path, "a", processes=3, max_processes=10)
    assert len(turns()) == 3


def test_who_fails_has_no_further_process_and_leaves_the_others_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Failed(status=Status.WRONG_VALUE, reason="off")
    monkeypatch.setattr(
        FakeJudge, "answer", lambda _self, name, process: wrong if (name, process) == ("a", 1) else passed(process)
    )
    found = {one.solution: one for one in judge(tmp_path, "a", "b", processes=3, max_processes=3)}
    assert turns() == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("b", 2)]
    assert isinstance(found["a"].outcome, Failed), "a pass before does not save it"
    assert isinstance(found["b"].outcome, Passed)


def test_a_judge_that_ended_is_replaced_and_told_the_case_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(self: FakeJudge, name: str, process: int) -> Outcome:
        self.has_ended = name == "a"
        return Failed(status=Status.HARNESS_ERROR, reason="died") if name == "a" else passed(process)

    monkeypatch.setattr(FakeJudge, "answer", dies)
    found = {one.solution: one.outcome for one in judge(tmp_path, "a", "b", verify_only=True)}
    assert isinstance(found["b"], Passed)
    first, second = FakeJudge.every
    assert (first.closed, second.closed) == (True, True)
    assert second.expected == ["b"]
    assert [asked[:2] for asked in FakeJudge.asked] == [("open", "small"), ("a", 0), ("open", "small"), ("b", 0)]


def test_a_case_that_cannot_be_opened_is_every_solutions_and_no_other_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeJudge, "refused", "default")
    found = judge(tmp_path, "a", "b", cases=("*",), verify_only=True)
    outcomes = {(one.case, one.solution): one.outcome for one in found}
    for name in ("a", "b"):
        refused = outcomes["default", name]
        assert isinstance(refused, Failed)
        assert (refused.status, refused.reason) == (Status.REFERENCE_FAILED, "no inputs today")
        assert isinstance(outcomes["small", name], Passed)


def test_a_time_limit_is_for_all_processes_of_a_solution(tmp_path: Path) -> None:
    limits = replace(RunOptions().limits, total_s=100.0)
    judge(tmp_path, "a", "b", processes=2, max_processes=2, limits=limits)
    ends = {(asked[0], asked[3]["deadline_s"]) for asked in FakeJudge.asked if asked[0] != "open"}
    assert len(ends) == 2, "one for each solution, set when it began"
