"""A run's parent with a judge that is none: whose turn it is, how often, and what becomes of a judge that ends."""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny_corpus
from fakes import CORRECT, ENVIRONMENT, timing
from verdicts import written
from waiting import wait_until

from kbench.catalog import registry
from kbench.catalog.registry import Entry
from kbench.catalog.shapes import Derived
from kbench.core.errors import MachineError, UsageError
from kbench.core.events import Estimated, Event, Judged, LargeCases, RunOptions
from kbench.core.forecast import Forecast
from kbench.core.kernel_names import OwnShare
from kbench.core.model import Case, Cost, Failed, FindingKind, Outcome, Passed, Status
from kbench.engine import builds, crew, evaluator, journal
from kbench.engine import run as verb
from kbench.host.judge_process import Evaluated, OnStage, OpenedCase
from kbench.process.channel import encode_constants
from kbench.process.child_error import ChildError
from kbench.process.observed import Observed
from kbench.sandbox import rungs
from kbench.storage.results import read_run
from kbench.storage.settings import Settings

PROBLEM = tiny_corpus.problem(given="torch.rand(n)", constants='n = 4\nCASES = {"default": {}, "small": {"n": 2}}')
SOLUTION = tiny_corpus.solution("return x + x")


class FakeJudge:
    """Answers with what a test has planned, and writes down what it was asked."""

    every: Sequence["FakeJudge"] = ()
    asked: Sequence[tuple[Any, ...]] = ()
    host_bytes = 0
    problem_s = 0.0
    answer: Callable[["FakeJudge", str, int], Outcome]
    told_share: Callable[["FakeJudge"], OwnShare]
    refused: str = ""
    sizes: Mapping[str, int] = {}
    sized: Sequence[tuple[str, bool]] = ()

    def __init__(self, *_: Any, expected: Sequence[Entry], **__: Any):
        self.expected = [entry.name for entry in expected]
        self.has_ended = self.closed = self.is_opened = False
        self.holder = self.stuck = ""
        self.observed = Observed()
        self.number = len(FakeJudge.every)
        FakeJudge.every = (*FakeJudge.every, self)

    def note(self, *what: Any) -> None:
        FakeJudge.asked = (*FakeJudge.asked, what)

    def start(self) -> None:
        """Nothing has to start."""

    def derive(self, _problem: Entry, overrides: Mapping[str, Any]) -> Derived:
        return Derived(cases=[{**overrides, "n": overrides.get("n", 4) - 1}])

    def call_bytes(self, _problem: Entry, case: Case, *, in_full: bool) -> tuple[int | None, int | None]:
        assert not self.is_opened, "nothing is made yet"
        FakeJudge.sized = (*FakeJudge.sized, (case.name, in_full))
        return FakeJudge.sizes.get(case.name), 24 * 10**9

    def open(self, _problem: Entry, case: Case) -> OpenedCase:
        self.note("open", case.name)
        self.is_opened = True
        if case.name == FakeJudge.refused:
            raise ChildError(Status.REFERENCE_FAILED, "no inputs today")
        return OpenedCase(environment=ENVIRONMENT, cost=Cost(dram_bytes=64, flops=8), eval_mode=False)

    def ahead(self, following: Sequence[Entry], _busy: int) -> list[str]:
        return [entry.name for entry in following]

    def evaluate(self, message: Any, on_stage: OnStage) -> Evaluated:
        name, process = message["solution"]["name"], message["assignment"]["process"]
        self.note(name, process, message)
        on_stage("time", True, None)
        outcome = FakeJudge.answer(self, name, process)
        on_stage("time", isinstance(outcome, Passed), 0.5)
        return Evaluated(outcome=outcome)

    def own_share(self, _problem: Entry, entry: Entry, _artefacts: Path) -> OwnShare:
        self.note(entry.name, "own share")
        return FakeJudge.told_share(self)

    def close(self) -> None:
        self.closed = True


def passed(process: int) -> Passed:
    noisy = timing(process)
    samples = tuple(
        replace(s, t_event_ns=s.t_event_ns + (40_000 * process if s.arm == "candidate" else 0)) for s in noisy.samples
    )
    return Passed(correctness=CORRECT, timings=(replace(noisy, samples=samples),))


@pytest.fixture(autouse=True)
def court(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    monkeypatch.setattr(evaluator, "JudgeProcess", FakeJudge)
    for module in (verb, crew):
        monkeypatch.setattr(module, "nursery_process", SimpleNamespace(nursery=contextlib.nullcontext))
    for name, empty in {"every": (), "asked": (), "refused": "", "sizes": {}, "sized": ()}.items():
        monkeypatch.setattr(FakeJudge, name, empty)
    monkeypatch.setattr(FakeJudge, "answer", lambda _self, _name, process: passed(process), raising=False)


def begin(folder: Path, *names: str, **options: Any) -> Iterator[Event]:
    files = {name: SOLUTION for name in names if name != "eager"}
    problem, entries = written(folder, PROBLEM, files, "doubles")
    entries = entries or [registry.find_solution(problem, "eager", Settings())]
    chosen = {"device": "cpu", "trusted": True, "save": False, "cases": ("small",), "wait_for_device": False, **options}
    journaled = {name: chosen.pop(name) for name in ("arguments", "resumed") if name in chosen}
    return verb.run(problem, entries, RunOptions(**chosen), **journaled)


def judge(folder: Path, *names: str, **options: Any) -> list[Judged]:
    return [event for event in begin(folder, *names, **options) if isinstance(event, Judged)]


def told(folder: Path) -> list[LargeCases]:
    """Return the large cases that a run of `eager` at the default case reports."""
    events = begin(folder, "eager", cases=("default",), results_dir=folder)
    return [event for event in events if isinstance(event, LargeCases)]


def test_large_cases_are_told_before_they_are_made_with_the_way_out(tmp_path: Path) -> None:
    FakeJudge.sizes = {"default": 7_500_000_000, "small": 25_000_000}
    (event,) = told(tmp_path)
    assert event == LargeCases(
        cases=(Forecast(device="cpu", case="default", call_bytes=7_500_000_000),),
        small=Forecast(device="cpu", case="small", call_bytes=25_000_000),
        memory_bytes=24 * 10**9,
    )
    assert FakeJudge.sized == (("default", False), ("small", True)), "a way out is not made smaller than it is"


@pytest.mark.parametrize(
    ("asked", "others", "told"),
    [
        ({"wait_for_device": True}, False, ["7 train.py"]),
        ({"wait_for_device": True}, True, []),
        ({"wait_for_device": True, "verify_only": True}, False, []),
        ({"wait_for_device": False}, False, []),
    ],
    ids=["timed", "beside other kbench", "verified only", "not waited for"],
)
def test_strangers_on_the_device_are_named_that_were_there_before_this_run(tmp_path, monkeypatch, asked, others, told):
    """The judge opens the device as soon as it starts."""

    def found(_: object) -> tuple[str, ...]:
        return (f"8 judge of {len(FakeJudge.every)}",) if FakeJudge.every else ("7 train.py",)

    monkeypatch.setattr(verb, "monitor", SimpleNamespace(foreign_processes=found))
    monkeypatch.setattr(verb.Admission, "is_in_use", lambda _: others)
    monkeypatch.setattr("kbench.devices.peaks.known_or_measured", lambda *_: None)
    (judged,) = judge(tmp_path, "eager", **asked)
    assert isinstance(judged.outcome, Passed)
    begun = "other processes computed on the device when the run began: "
    assert [one.message.removeprefix(begun) for one in judged.outcome.findings if one.code == "interference"] == told


def turns() -> list[tuple[Any, ...]]:
    return [asked[:2] for asked in FakeJudge.asked if asked[0] != "open"]


def requests() -> list[Any]:
    """What the judge was asked to evaluate, in its order."""
    return [asked[2] for asked in FakeJudge.asked if len(asked) == 3]


def test_solutions_take_turns_and_the_order_is_turned_about(tmp_path: Path) -> None:
    judge(tmp_path, "a", "b", processes=3, max_processes=3)
    assert turns() == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)]
    assert len(FakeJudge.every) == 1, "one judge for all of it"
    assert [asked for asked in FakeJudge.asked if asked[0] == "open"] == [("open", "small")], "and one opening"


def test_it_says_who_comes_next(tmp_path: Path) -> None:
    judge(tmp_path, "a", "b", processes=2, max_processes=2)
    assert FakeJudge.every[0].expected == ["a", "b"]
    first, second, *_ = [one["assignment"]["next_compilers"] for one in requests()]
    assert first[0] == "b", "and then, in the next process"
    assert second[:2] == ["b", "a"]


def test_the_first_process_alone_sees_the_other_cases(tmp_path: Path) -> None:
    judge(tmp_path, "a", cases=("default",), processes=3, max_processes=3)
    told = [one["assignment"] for one in requests()]
    assert [one["other_cases"] for one in told] == [[encode_constants({"n": 2})], [], []]
    assert [one["derived_cases"] for one in told] == [[encode_constants({"n": 3})]] * 3, "the judge's to leave out"


def test_shapes_are_derived_from_the_case_and_not_from_the_full_size(tmp_path: Path) -> None:
    judge(tmp_path, "a", processes=1, max_processes=1)
    (told,) = requests()
    assert told["assignment"]["derived_cases"] == [encode_constants({"n": 1})], "the small case has 2, the problem 4"


def test_noise_asks_for_more_processes_up_to_a_limit(tmp_path: Path) -> None:
    (one,) = judge(tmp_path, "a", processes=2, max_processes=5)
    assert len(turns()) == 5
    assert isinstance(one.outcome, Passed)
    assert len(one.outcome.timings) == 5
    assert [row.process for row in one.rows] == list(range(5))
    assert one.stage_s["time"] == pytest.approx(2.5), "every process counts"


def test_who_fails_has_no_further_process_and_leaves_the_others_theirs(tmp_path, monkeypatch):
    wrong = Failed(status=Status.WRONG_VALUE, reason="off")
    monkeypatch.setattr(
        FakeJudge, "answer", lambda _self, name, process: wrong if (name, process) == ("a", 1) else passed(process)
    )
    found = {one.solution: one for one in judge(tmp_path, "a", "b", processes=3, max_processes=3)}
    assert turns() == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("b", 2)]
    assert isinstance(found["a"].outcome, Failed), "a pass before does not save it"
    assert isinstance(found["b"].outcome, Passed)


def test_a_judge_that_ended_is_replaced_and_told_the_case_again(tmp_path, monkeypatch):
    def dies(self: FakeJudge, name: str, process: int) -> Outcome:
        self.has_ended = name == "a"
        return Failed(status=Status.HARNESS_ERROR, reason="died") if name == "a" else passed(process)

    monkeypatch.setattr(FakeJudge, "answer", dies)
    found = {one.solution: one.outcome for one in judge(tmp_path, "a", "b", verify_only=True)}
    assert isinstance(found["b"], Passed)
    assert isinstance(found["a"], Failed)
    *others, last = FakeJudge.every
    assert [one.closed for one in FakeJudge.every] == [True] * 4, "nobody knows whose fault it was: three attempts"
    assert last.expected == ["b"]
    asked = [asked[:2] for asked in FakeJudge.asked]
    assert asked == [("open", "small"), ("a", 0)] * len(others) + [("open", "small"), ("b", 0)]


def test_a_judge_that_was_killed_costs_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies_once(self: FakeJudge, _name: str, process: int) -> Outcome:
        self.has_ended = self.number == 0
        return Failed(status=Status.HARNESS_ERROR, reason="died") if self.number == 0 else passed(process)

    monkeypatch.setattr(FakeJudge, "answer", dies_once)
    (found,) = judge(tmp_path, "a", **TWO)
    assert isinstance(found.outcome, Passed)
    assert turns() == [("a", 0), ("a", 0), ("a", 1)]


def test_a_case_that_cannot_be_opened_is_every_solutions_and_no_other_cases(tmp_path, monkeypatch):
    monkeypatch.setattr(FakeJudge, "refused", "default")
    found = judge(tmp_path, "a", "b", cases=("*",), verify_only=True)
    outcomes = {(one.case, one.solution): one.outcome for one in found}
    for name in ("a", "b"):
        refused = outcomes["default", name]
        assert isinstance(refused, Failed)
        assert (refused.status, refused.reason) == (Status.REFERENCE_FAILED, "no inputs today")
        assert isinstance(outcomes["small", name], Passed)


@pytest.mark.parametrize("status", [Status.INIT_FAILED, Status.IMPORT_TIMEOUT])
@pytest.mark.parametrize(("refused", "blamed"), [("small", Status.REFERENCE_FAILED), ("", None)])
def test_a_build_that_fails_of_the_problem_is_the_problems_fault(tmp_path, monkeypatch, status, refused, blamed):
    failure = Failed(status=status, reason="did not import")
    monkeypatch.setattr(builds.Builds, "_may_need_a_build", lambda *_: True)
    monkeypatch.setattr(builds, "job_of", lambda *_: SimpleNamespace(is_done=False, rehearsals={}))
    monkeypatch.setattr(builds, "Builder", lambda *_, **__: SimpleNamespace(build=lambda *_: failure, stop=int))
    monkeypatch.setattr(FakeJudge, "refused", refused)
    (found,) = judge(tmp_path, "a", verify_only=True)
    assert isinstance(found.outcome, Failed)
    assert found.outcome.status is (blamed or status)


def test_a_time_limit_is_for_all_processes_of_a_solution(tmp_path: Path) -> None:
    judge(tmp_path, "a", "b", processes=2, max_processes=2, timeout_s=100.0)
    assert [(one["solution"]["name"], one["left_s"]) for one in requests()] == [
        *(("a", 100.0), ("b", 100.0)),
        *(("b", 99.5), ("a", 99.5)),
    ], "each has its own, and what the others take is none of it"


def test_what_the_problem_takes_is_not_the_solutions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(one: FakeJudge, problem: Entry, case: Case) -> OpenedCase:
        time.sleep(0.3)
        return opened(one, problem, case)

    opened = FakeJudge.open
    monkeypatch.setattr(FakeJudge, "open", slow)
    monkeypatch.setattr(FakeJudge, "problem_s", 0.2)
    judge(tmp_path, "a", **TWO, timeout_s=100.0)
    assert [one["left_s"] for one in requests()] == [100.0, pytest.approx(99.7)]


@pytest.fixture
def names_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the evaluator take the device for one whose kernels a profiler sees."""
    monkeypatch.setattr(evaluator, "backend", lambda _kind: SimpleNamespace(names_kernels=True))
    monkeypatch.setattr(FakeJudge, "told_share", lambda _self: OwnShare(share=0.97), raising=False)


TWO = {"processes": 2, "max_processes": 2}


@pytest.mark.usefixtures("names_kernels")
def test_a_call_is_profiled_once_per_case_after_its_last_process(tmp_path: Path) -> None:
    found = judge(tmp_path, "a", "b", cases=("*",), **TWO)
    assert [one.outcome.own_share for one in found if isinstance(one.outcome, Passed)] == [0.97] * 4
    assert {row.own_share for one in found for row in one.rows} == {0.97}
    assert all("profile" in one.stage_s for one in found)
    told = turns()
    for case in (told[:6], told[6:]):
        for name in "ab":
            assert [what for who, what in case if who == name] == [0, 1, "own share"]


@pytest.mark.usefixtures("names_kernels")
def test_a_share_that_the_judge_was_asked_for_stands_in_every_row(tmp_path, monkeypatch):
    def answer(_self: FakeJudge, _name: str, process: int) -> Outcome:
        return replace(passed(process), own_share=0.4 if process == 0 else None)

    monkeypatch.setattr(FakeJudge, "answer", answer)
    (one,) = judge(tmp_path, "a", **TWO, require_custom=True)
    assert [row.own_share for row in one.rows] == [0.4, 0.4]


@pytest.mark.usefixtures("names_kernels")
def test_a_failed_solution_is_not_profiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Failed(status=Status.WRONG_VALUE, reason="wrong")
    monkeypatch.setattr(FakeJudge, "answer", lambda *_: wrong)
    judge(tmp_path, "a", **TWO)
    assert ("a", "own share") not in turns()


def failing(error: Exception | None = None, told: OwnShare | None = None) -> Callable[[FakeJudge], OwnShare]:
    def own_share(_self: FakeJudge) -> OwnShare:
        if error is not None:
            raise error
        return told

    return own_share


@pytest.mark.usefixtures("names_kernels")
@pytest.mark.parametrize(
    ("own_share", "reason", "judges"),
    [
        (failing(told=OwnShare(share=None, reason="is CUPTI installed?")), "is CUPTI installed?", 1),
        (failing(told=OwnShare(share=None, reason="died of SIGSEGV", status=Status.CRASHED)), "died of SIGSEGV", 1),
        (failing(ChildError(Status.CALL_TIMEOUT, "no answer within 180 s")), "no answer within 180 s", 2),
        (failing(ChildError(Status.CRASHED, "the process died of SIGSEGV")), "the process died of SIGSEGV", 2),
    ],
    ids=["nothing seen", "worker died", "judge is silent", "judge died"],
)
def test_a_profile_that_fails_changes_no_verdict_and_no_other_solution(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own_share: Callable[[FakeJudge], OwnShare],
    reason: str,
    judges: int,
) -> None:
    monkeypatch.setattr(FakeJudge, "told_share", own_share)
    found = judge(tmp_path, "a", cases=("*",), **TWO)
    assert [one.case for one in found] == ["default", "small"]
    for one in found:
        assert isinstance(one.outcome, Passed)
        assert len(one.outcome.timings) == 2
        assert {(row.status, row.own_share) for row in one.rows} == {("passed", None)}
        assert {row.speedup_low is None for row in one.rows} == {False}
        (note,) = [finding for finding in one.outcome.findings if finding.code == "kernels"]
        assert reason in note.message
        assert (note.kind, note.fatal) == (FindingKind.NOTE, False)
    assert len(FakeJudge.every) == judges, "a judge whose next answer is not known is replaced"


@pytest.mark.usefixtures("names_kernels")
@pytest.mark.parametrize(("share", "is_flagged"), [(0.0, True), (0.005, True), (0.97, False)])
def test_a_solution_that_does_not_run_its_own_kernels_is_flagged_in_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, is_flagged: bool
) -> None:
    monkeypatch.setattr(FakeJudge, "told_share", lambda _self: OwnShare(share=share))
    judge(tmp_path, "a", **TWO, save=True, results_dir=tmp_path / "results", name="told")
    saved = read_run(tmp_path / "results" / "told.csv")
    assert [row.own_share for row in saved.rows] == [share, share]
    for row in saved.rows:
        assert ("library_time" in row.flags.split()) is is_flagged


@pytest.mark.usefixtures("names_kernels")
def test_the_time_of_a_profile_is_not_the_solutions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(_self: FakeJudge) -> OwnShare:
        time.sleep(0.3)
        return OwnShare(share=1.0)

    monkeypatch.setattr(FakeJudge, "told_share", slow)
    judge(tmp_path, "a", cases=("*",), **TWO, timeout_s=100.0)
    assert [one["left_s"] for one in requests()] == [100.0, 99.5, 99.0, 98.5]


@pytest.mark.parametrize(
    ("rung", "options", "refused"),
    [
        (rungs.Rung.FULL, {"require_sandbox": True}, None),
        (rungs.Rung.NONE, {}, None),
        (rungs.Rung.NONE, {"require_sandbox": True}, MachineError),
        (rungs.Rung.FULL, {"require_sandbox": True, "trusted": True}, UsageError),
    ],
)
def test_a_sandbox_can_be_required(monkeypatch: pytest.MonkeyPatch, rung: Any, options: Any, refused: Any) -> None:
    monkeypatch.setattr(verb.rung_probe, "reached", lambda *_: rung)
    with contextlib.nullcontext() if refused is None else pytest.raises(refused):
        assert verb.sandbox_rung(RunOptions(**options), "cpu") == rung


def kept(folder: Path, **options: Any) -> dict[str, Any]:
    return {**TWO, "save": True, "results_dir": folder / "results", "name": "one", **options}


def test_a_run_that_was_broken_off_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(self: FakeJudge, _name: str, process: int) -> Outcome:
        if process == 0:
            return passed(process)
        wait_until(lambda: self.closed)
        return Failed(status=Status.HARNESS_ERROR, reason="killed")

    monkeypatch.setattr(FakeJudge, "answer", hangs)
    events = begin(tmp_path, "a", "b", **kept(tmp_path), arguments={"problem": "p"})
    for event in events:
        if isinstance(event, Estimated) and event.solution == "b":
            break
    events.close()
    before = read_run(tmp_path / "results" / "one.csv").rows
    assert [(row.solution, row.process) for row in before] == [("a", 0), ("b", 0)]
    path, record = journal.find("run", "@latest", tmp_path / "results")
    FakeJudge.asked = ()
    monkeypatch.setattr(FakeJudge, "answer", lambda _self, _name, process: passed(process))
    found = list(begin(tmp_path, "a", "b", **kept(tmp_path), arguments={}, resumed=record))
    assert turns() == [("b", 1), ("a", 1)], "what is done is not repeated, and the order goes on as it was"
    assert {one.solution: len(one.rows) for one in found if isinstance(one, Judged)} == {"a": 2, "b": 2}
    after = read_run(tmp_path / "results" / "one.csv").rows
    assert sorted((row.solution, row.process) for row in after) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    kept_row = next(row for row in after if (row.solution, row.process) == ("a", 0))
    assert kept_row == replace(before[0], speedup_low=kept_row.speedup_low, speedup_high=kept_row.speedup_high,
                               flags=kept_row.flags)  # fmt: skip
    assert not path.exists(), "nothing is left to do"
    with pytest.raises(UsageError, match="was broken off"):
        journal.find("run", "@latest", tmp_path / "results")


def test_a_finished_verdict_is_read_from_the_journal_and_an_edited_solution_is_judged_again(tmp_path, monkeypatch):
    def breaks_off(_self: FakeJudge, name: str, process: int) -> Outcome:
        if name == "b":
            raise KeyboardInterrupt
        return passed(process)

    monkeypatch.setattr(FakeJudge, "answer", breaks_off)
    with pytest.raises(KeyboardInterrupt):
        list(begin(tmp_path, "a", "b", **kept(tmp_path, verify_only=True), arguments={}))
    _, record = journal.find("verify", "one", tmp_path / "results")
    monkeypatch.setattr(FakeJudge, "answer", lambda _self, _name, process: passed(process))
    for edited, expected in (("", [("b", 0)]), ("\n# edited\n", [("a", 0), ("b", 0)])):
        FakeJudge.asked = ()
        monkeypatch.setitem(globals(), "SOLUTION", SOLUTION + edited)
        copy = tmp_path / f"results{len(edited)}"
        shutil.copytree(tmp_path / "results", copy)
        options = kept(tmp_path, verify_only=True, results_dir=copy)
        found = [one for one in begin(tmp_path, "a", "b", **options, arguments={}, resumed=record)
                 if isinstance(one, Judged)]  # fmt: skip
        assert turns() == expected
        assert {one.solution: isinstance(one.outcome, Passed) for one in found} == {"a": True, "b": True}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MachineError("no room", "free some")])
def test_a_run_that_ends_before_its_first_verdict_leaves_no_file(tmp_path, monkeypatch, error):
    def ends(*_: object) -> Outcome:
        raise error

    monkeypatch.setattr(FakeJudge, "answer", ends)
    with pytest.raises(type(error)):
        list(begin(tmp_path, "a", "b", **kept(tmp_path), arguments={}))
    assert list((tmp_path / "results").iterdir()) == []


def test_a_run_without_a_verdict_by_kbenchs_fault_can_be_resumed(tmp_path, monkeypatch):
    broken = Failed(status=Status.HARNESS_ERROR, reason="died")
    monkeypatch.setattr(FakeJudge, "answer", lambda *_: broken)
    list(begin(tmp_path, "a", **kept(tmp_path), arguments={}))
    _, record = journal.find("run", "one", tmp_path / "results")
    monkeypatch.setattr(FakeJudge, "answer", lambda _self, _name, process: passed(process))
    found = list(begin(tmp_path, "a", **kept(tmp_path), arguments={}, resumed=record))
    (judged,) = [one for one in found if isinstance(one, Judged)]
    assert isinstance(judged.outcome, Passed)
