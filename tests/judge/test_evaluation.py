"""The stages of an evaluation: which workers time, and when a profile that the user asks for is taken."""

import contextlib
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import CORRECT, timing

from kbench.core.events import RunOptions
from kbench.core.model import Cost, Failed, Passed, Status
from kbench.core.timed import BACKWARD, FORWARD
from kbench.core.trace import DeviceActivity
from kbench.judge import evaluation
from kbench.judge.clock.gate_clock import NotQueuedError
from kbench.judge.evaluation import Assignment, Evaluation
from kbench.judge.refusal import WrongError

HALF = [DeviceActivity(name=name, start_ns=0, duration_ns=10) for name in ("mine", "ampere_sgemm_128x64_tn")]


SPEC = SimpleNamespace(problem="problem.py", path="solution.py", entry="ModelNew", builtin="")


class FakeJudge:
    """Has a reference and a lock, and writes down what happens within it."""

    device = "cuda"
    timed = FORWARD

    def __init__(self) -> None:
        self.other_shapes: dict[tuple[str, ...], dict[str, Any]] = {}
        self.reference = SimpleNamespace(factor=4.0, cost=Cost(dram_bytes=0, flops=0))
        self.bound: Any = None
        self.is_locked = False

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        self.is_locked = True
        yield
        self.is_locked = False

    def workers_open(self, *, reference: bool) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def progress(self, **_: Any) -> None:
        pass


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> FakeJudge:
    tally = SimpleNamespace(correctness=lambda *_: CORRECT, figures=CORRECT, notes=list)
    trial = SimpleNamespace(tally=tally)
    bound = SimpleNamespace(
        constructed=lambda *_, **__: trial, bound_to=lambda _: trial, close=lambda: None, tally=tally
    )
    levels = SimpleNamespace(lacks={})
    monkeypatch.setattr(evaluation, "BoundCandidate", lambda *_: bound)
    monkeypatch.setattr(evaluation, "Levels", lambda *_, **__: levels)
    monkeypatch.setattr(Evaluation, "_verify", lambda *_: None)
    judge = FakeJudge()
    judge.bound = bound
    return judge


def evaluate(judge: FakeJudge, *, process: int = 0, **options: Any) -> Passed | Failed:
    candidate: Any = SimpleNamespace(prepare=lambda: None, kill=lambda: None, log="", spec=SPEC)
    assignment = Assignment(
        process=process,
        verify=process == 0,
        options=RunOptions(**options),
        follows=False,
        other_cases=[],
        derived_cases=[],
        underived="",
        next_compilers=[],
        is_unchanged=False,
    )
    return Evaluation(judge, candidate, assignment).run()


LONG = Cost(dram_bytes=0, flops=1 << 40)
OTHER_CASES = {
    "of equal shapes": ({}, {}, True),
    "of other shapes": ({"derived_cases": [{"n": 5}]}, {}, False),
    "after an edit": ({"is_unchanged": False}, {}, False),
    "of both passes": ({}, {"timed": BACKWARD}, False),
    "whose calls are long": ({}, {"reference": SimpleNamespace(cost=LONG)}, False),
    "of another solution": ({"spec": {"entry": "other"}}, {}, False),
}
"""What differs from the first case: in the assignment, or in the judge's state; and whether it shares the results."""


@pytest.mark.parametrize("name", OTHER_CASES)
def test_which_cases_share_the_results_at_other_shapes(judge, monkeypatch, name: str) -> None:
    given, state, shares = OTHER_CASES[name]
    known: list[object] = []
    monkeypatch.setattr(evaluation, "Levels", lambda *arguments: known.append(arguments[-1]))

    def made(*, is_unchanged: bool = True, derived_cases: Sequence[Any] = (), spec: Any = None) -> Any:
        candidate = SimpleNamespace(spec=SimpleNamespace(**{**vars(SPEC), **(spec or {})}))
        assigned = {"verify": True, "options": RunOptions(), "other_cases": [], "derived_cases": derived_cases}
        return Evaluation(judge, candidate, SimpleNamespace(**assigned, is_unchanged=is_unchanged))

    first = made()
    first._other_shapes[first._shapes] = "results"
    for field, value in state.items():
        monkeypatch.setattr(judge, field, value)
    made(**given)
    assert known == [None, "results" if shares else None]


def test_a_profile_fills_the_share_and_holds_the_devices_lock(judge, monkeypatch):
    """Another kbench may be timing, which a call outside of the lock would disturb."""
    locked = []
    monkeypatch.setattr(evaluation, "profile_judged", lambda *_: locked.append(judge.is_locked) or HALF)
    outcome = evaluate(judge, verify_only=True, require_custom=True)
    assert isinstance(outcome, Passed), outcome
    assert (outcome.own_share, locked) == (0.5, [True])


@pytest.mark.parametrize(("process", "options"), [(0, {}), (1, {"require_custom": True})])
def test_a_timed_process_is_not_profiled_unless_asked_for(judge, monkeypatch, process, options):
    def time_it(self: Evaluation) -> Any:
        self._profile(None)  # as `Pairing` does, after the last time
        return timing(process)

    monkeypatch.setattr(Evaluation, "_time", time_it)
    monkeypatch.setattr(evaluation, "profile_judged", lambda *_: pytest.fail("profiled in a timed process"))
    outcome = evaluate(judge, process=process, **options)
    assert isinstance(outcome, Passed), outcome
    assert outcome.own_share is None


def test_a_wrong_value_in_a_profile_that_was_asked_for_counts(
    judge: FakeJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: object) -> None:
        raise WrongError(Status.WRONG_VALUE, "wrong below the profiler", "", CORRECT)

    monkeypatch.setattr(evaluation, "profile_judged", wrong)
    outcome = evaluate(judge, verify_only=True, require_custom=True)
    assert isinstance(outcome, Failed)
    assert outcome.status is Status.WRONG_VALUE


def test_what_the_solution_was_lent_is_taken_back_before_the_references_process_is_lent_any(judge, monkeypatch):
    """That would allocate the outputs of a large call twice, and never free the first."""
    done: list[str] = []

    def tells(name: str) -> Any:
        return lambda *_, **__: done.append(name)

    candidate = SimpleNamespace(vary_weights=tells("vary"), pause=tells("pause"), spec=SPEC)
    trial = SimpleNamespace(
        reference=None,
        arena=None,
        candidate=candidate,
        exchange=tells("call"),
        take_back=tells("take back"),
        peak_bytes=0,
    )
    reference = SimpleNamespace(load=tells("load"), bind=tells("bind"), kill=tells("kill"), spec=None)
    judge.bound.bound_to, judge.bound.rebind_next = (lambda *_, **__: trial), (lambda: None)
    judge.take_reference_worker, judge.constructing = (lambda: reference), (lambda _: contextlib.nullcontext())
    gpu = SimpleNamespace(queues_calls=True, release_cached=lambda: None)
    monkeypatch.setattr(evaluation, "backend", lambda _: gpu)
    monkeypatch.setattr(
        evaluation, "DeviceClock", lambda *_, **__: SimpleNamespace(close=tells("close"), warm_up=tells("warm up"))
    )
    made = Evaluation(
        judge,
        candidate,
        SimpleNamespace(verify=True, options=RunOptions(), other_cases=[], derived_cases=[], is_unchanged=False),
    )
    with contextlib.ExitStack() as stack:
        made._arms(stack, "cuda", "", fetches=True)
    assert done == ["vary", "call", "take back", "pause", "load", "bind", "warm up", "close", "kill"]


@pytest.mark.parametrize("arm", ["candidate", "reference"])
def test_calls_that_can_neither_be_queued_nor_recorded_are_timed_by_plain_loops_in_a_fresh_worker(
    judge: FakeJudge, monkeypatch: pytest.MonkeyPatch, arm: str
) -> None:
    done: list[str] = []

    def paired(_: Evaluation, unqueued: str, **_how: bool) -> Any:
        done.append(f"unqueued: {unqueued}")
        if not unqueued:
            raise NotQueuedError(arm, "recording the solution's calls failed: capturing")
        return timing(0)

    monkeypatch.setattr(Evaluation, "_paired", paired)
    judge.bound.reconstruct_next = lambda: done.append("renewed")
    outcome = evaluate(judge)
    assert isinstance(outcome, Passed)
    assert ("not_recorded", "recording the solution's calls failed: capturing") in {
        (one.code, one.message) for one in outcome.findings
    }
    assert done == ["unqueued: ", "renewed", f"unqueued: {arm}"]


def test_a_second_try_tells_of_its_own_profile_only(judge: FakeJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[Exception | None] = [NotQueuedError("candidate", "capturing"), None]

    def paired(self: Evaluation, unqueued: str, **_how: bool) -> Any:
        self._profile(None)
        if (error := tries.pop(0)) is not None:
            raise error
        return timing(0)

    monkeypatch.setattr(Evaluation, "_paired", paired)
    monkeypatch.setattr(evaluation, "profile_judged", lambda *_: HALF)
    judge.bound.reconstruct_next = lambda: None
    codes = [finding.code for finding in evaluate(judge, require_custom=True).findings]
    assert codes.count("kernels") == 1
