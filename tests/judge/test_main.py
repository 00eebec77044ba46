"""Workers that get ready before their solution's turn comes: which are kept, replaced and taken."""

import contextlib
import math
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from fakes import CORRECT

from kbench.catalog import problem
from kbench.core.errors import PluginError, ReferenceRaisedError
from kbench.core.model import Failed, Passed, Status
from kbench.core.trace import DeviceActivity
from kbench.devices.admission import DeviceBusyError, Wait
from kbench.judge import main, start, state
from kbench.judge.clock.profile import NOTHING_RECORDED
from kbench.judge.refusal import RefusalError
from kbench.judge.worker_link import SolutionSpec
from kbench.process.channel import DeadlineError, PeerGoneError
from kbench.process.child_error import ChildError
from kbench.process.observed import Observed
from kbench.process.worker_start import WorkerConfig


class Worker:
    def __init__(self, _config: WorkerConfig, _nursery: None, number: int, *, compiler: str):
        self.number, self.compiler = number, compiler
        self.alive, self.has_ended, self.is_ready = True, False, True
        self.observed = Observed()
        self.opened: str | None = None
        self.weights, self.spec = "name", None

    def watch_memory(self, limit_bytes: int) -> None:
        self.memory_limit_bytes = limit_bytes

    def prepare(self) -> None:
        self.prepared = True

    def open(self, mode: str, *, queues_calls: bool) -> None:
        assert queues_calls
        self.opened = mode

    def wait(self, _timeout_s: float) -> None:
        if self.compiler == "graphs":
            raise ChildError(Status.OUT_OF_MEMORY, "no room for a context")

    def kill(self) -> None:
        self.alive, self.has_ended = False, True


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> main.JudgeService:
    monkeypatch.setattr(state, "WorkerProcess", Worker)
    for module in (main, state):
        monkeypatch.setattr(module, "Candidate", lambda _spec, _config, worker: worker)
    return main.JudgeService(
        None, WorkerConfig(device="cpu", rung=0, scratch="/nowhere"), SimpleNamespace(kill=lambda: None)
    )


def take(service: main.JudgeService, compiler: str) -> Worker:
    return service.fresh_worker(compiler)


def test_a_worker_of_the_reference_that_was_not_used_serves_the_next_solution(service: main.JudgeService) -> None:
    first = service._reference_worker()
    assert service.take_reference_worker() is first
    assert first.prepared
    second = service._reference_worker()
    assert second is not first, "the reference ran in it"
    second.has_ended = True
    assert service.take_reference_worker() not in {first, second}


def test_a_worker_of_the_reference_that_could_not_open_the_device_serves_nobody(service, monkeypatch) -> None:
    """A solution that took all of the device's memory, and was refused, must not have the next one refused."""
    monkeypatch.setattr(state, "backend", lambda _: SimpleNamespace(queues_calls=True))
    for compiler, serves in (("", True), ("graphs", False)):
        service.reference_build, service._spare = {"artefacts": "", "compiler": compiler}, None
        with contextlib.suppress(RefusalError), service.workers_open(reference=True):
            first = service._reference_worker()
            raise RefusalError(Status.OUT_OF_MEMORY, "of the solution")
        assert (first.opened, first.alive) == (service._config.options.mode, serves)
        assert (service.take_reference_worker() is first) is serves


def test_a_solutions_time_stands_still_while_the_problem_is_constructed_or_others_have_the_device(service, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(state.time, "monotonic", lambda: now[0])
    service._channel = SimpleNamespace(send=lambda _: None)
    deadline = service.deadline(10.0)
    left_s = []
    for step in (problem.Step.CONSTRUCT, problem.Step.CALL, problem.Step.IMPORT):
        now[0] += 4.0
        service.report_step(step)
        left_s.append(deadline.left_s)
    service.progress(stage="verify")
    service._waited_s += 3.0
    assert [*left_s, deadline.left_s] == [math.inf, 6.0, math.inf, 5.0]
    assert service.deadline(None) is None


@pytest.mark.parametrize(("builtin", "told"), [("eager", ["construct", "call"]), ("", [])])
def test_a_built_in_solution_constructs_the_problems_model(service: main.JudgeService, builtin, told) -> None:
    sent = []
    service._channel = SimpleNamespace(send=sent.append)
    with service.constructing(SolutionSpec(**{**SPEC, "builtin": builtin})):
        pass
    assert [one["step"] for one in sent] == told


SPEC = {"name": "mine", "path": "mine.py", "builtin": "", "entry": "ModelNew", "problem": "problem.py"}
SPEC |= {"artefacts": "", "compiler": "graphs"}


class Bound:
    """Where a candidate is bound; it writes down which worker that is."""

    every: ClassVar[list["Bound"]] = []

    def __init__(self, candidate: Worker, *_: object):
        self.candidate, self.closed = candidate, False
        Bound.every.append(self)

    def bound_to(self, reference: str) -> str:
        assert self.candidate.prepared
        return f"bound to {reference}"

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def profiles(service: main.JudgeService, monkeypatch: pytest.MonkeyPatch) -> main.JudgeService:
    monkeypatch.setattr(main, "BoundCandidate", Bound)
    monkeypatch.setattr(Bound, "every", [])
    service._reference = "the reference"
    return service


def test_a_call_is_profiled_in_one_more_worker_that_is_dead_afterwards(profiles, monkeypatch):
    """Workers whose times count, and those that get ready for other solutions, are left alone."""
    seen = (DeviceActivity(name="mine", start_ns=0, duration_ns=10),)
    monkeypatch.setattr(main, "profile_warm", lambda trial: seen if trial == "bound to the reference" else None)
    profiles._start_ahead(["graphs", ""])
    ahead = list(profiles._ahead)
    assert profiles.do_profile({"solution": SPEC}) == {"share": 1.0, "reason": "", "status": ""}
    (bound,) = Bound.every
    assert bound.closed
    assert (bound.candidate.number, bound.candidate.compiler, bound.candidate.alive) == (3, "graphs", False)
    assert profiles._ahead == ahead
    assert all(worker.alive for worker in ahead)


def test_a_profile_without_kernels_says_why(profiles: main.JudgeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "profile_warm", lambda _: ())
    answer = profiles.do_profile({"solution": SPEC})
    assert answer == {"share": None, "reason": NOTHING_RECORDED, "status": ""}


def test_a_solution_that_fails_below_the_profiler_is_an_answer(profiles, monkeypatch):
    def crash(*_: object) -> None:
        raise RefusalError(Status.CRASHED, "the process died of SIGSEGV")

    monkeypatch.setattr(main, "profile_warm", crash)
    answer = profiles.do_profile({"solution": SPEC})
    assert answer == {"share": None, "reason": "the process died of SIGSEGV", "status": "crashed"}
    (bound,) = Bound.every
    assert (bound.closed, bound.candidate.alive) == (True, False)


class Quiet:
    """A channel on which nothing comes for some time."""

    def __init__(self, quiet: int):
        self.quiet = quiet
        self.waited: list[float | None] = []

    def receive(self, timeout_s: float | None = None) -> dict[str, str]:
        self.waited.append(timeout_s)
        self.quiet -= 1
        if timeout_s is not None and self.quiet >= 0:
            raise DeadlineError
        return {"op": "evaluate"}


class Memory:
    """The memory of a device whose first `short` references find no room, and the locks that a judge takes for it."""

    def __init__(self, service: main.JudgeService, monkeypatch: pytest.MonkeyPatch, *, short: int = 0):
        self.taken: list[str] = []
        self.short, self.is_wanted = short, False
        monkeypatch.setattr(service, "_config", replace(service._config, uuid="GPU-1"))
        device = SimpleNamespace(has_own_memory=True, queues_calls=False, release_cached=lambda: None)
        monkeypatch.setattr(state, "backend", lambda _: device)
        admission = SimpleNamespace(
            memory=self.memory, is_memory_wanted=lambda: self.is_wanted, shared=lambda _: contextlib.nullcontext()
        )
        monkeypatch.setattr(main.JudgeService, "_admission", admission)
        monkeypatch.setattr(service, "_make_reference", self.make)

    def make(self, _: object) -> SimpleNamespace:
        self.short -= 1
        if self.short >= 0:
            raise torch.OutOfMemoryError
        return SimpleNamespace()

    @contextlib.contextmanager
    def memory(self, _wait: object, *, alone: bool) -> Iterator[None]:
        self.taken.append("alone" if alone else "beside")
        yield
        self.taken.append("given back")


@pytest.mark.parametrize("wanted", [True, False])
def test_a_judge_without_a_request_frees_its_case_for_a_process_that_waits_for_memory(service, monkeypatch, wanted):
    memory = Memory(service, monkeypatch)
    service._start_ahead(["", "graphs"])
    before = list(service._ahead)
    service._open_case()
    memory.is_wanted = wanted
    service._channel = quiet = Quiet(2)
    assert service._receive() == {"op": "evaluate"}
    assert [worker.compiler for worker in service._ahead] == ["", "graphs"]
    assert any(worker.alive for worker in before) is not wanted, "a worker that opened the device holds memory of it"
    assert quiet.waited == ([main.IDLE_S, None] if wanted else [main.IDLE_S] * 3)
    assert (service._reference is None) is wanted
    service._open_case()
    service._open_case()
    assert memory.taken == (["beside", "given back", "beside"] if wanted else ["beside"])


def test_a_case_that_runs_out_of_memory_beside_others_is_opened_once_more_alone(service, monkeypatch) -> None:
    memory = Memory(service, monkeypatch, short=1)
    service._open_case()
    assert memory.taken == ["beside", "given back", "alone"]
    service._free_case()
    service._open_case()
    assert memory.taken == ["beside", "given back", "alone", "given back", "alone"], "what is known is kept"


def test_a_case_that_runs_out_of_memory_alone_fails(service, monkeypatch) -> None:
    memory = Memory(service, monkeypatch, short=3)
    with pytest.raises(torch.OutOfMemoryError):
        service._open_case()
    assert memory.taken == ["beside", "given back", "alone"]
    with pytest.raises(torch.OutOfMemoryError):
        service._open_case()
    assert memory.taken == ["beside", "given back", "alone"], "it is not taken twice"


def test_who_verifies_lets_those_who_wait_to_time_go_first(service, monkeypatch) -> None:
    """Between two checks only, and only where somebody waits."""
    said, held = [], []
    waiting = iter([False, True, True])

    candidate = SimpleNamespace(has_ended=False, pause=lambda: held.append("stopped"))

    @contextlib.contextmanager
    def shared(wait: Wait) -> Iterator[None]:
        if held:
            wait.on_wait("a timing")
        held.append("taken")
        yield
        held.append("given back")

    monkeypatch.setattr(
        main.JudgeService, "_admission", SimpleNamespace(shared=shared, is_wanted=lambda: next(waiting))
    )
    service._config = WorkerConfig(device="cpu", rung=0, scratch="/nowhere", uuid="CPU-1")
    service._channel = SimpleNamespace(send=lambda message: said.append(message["stage"]))
    service.give_way(candidate)
    assert not held, "no lock to give back"
    with service.shared():
        service.progress(stage="verify")
        service.give_way(candidate)
        assert held == ["taken"]
        service.give_way(candidate)
        assert held == ["taken", "stopped", "given back", "taken"]
        candidate.has_ended = True
        service.give_way(candidate)
        assert held[4:] == ["given back", "taken"]
    assert held[-1] == "given back"
    assert said == ["verify", "wait", "verify", "wait", "verify"]


RAN_OUT = Failed(status=Status.OUT_OF_MEMORY, reason="CUDA out of memory")
OF_THE_REFERENCE = Failed(status=Status.NOT_VERIFIED, reason="the reference's own process failed: OutOfMemoryError")
WRONG = Failed(status=Status.WRONG_VALUE, reason="wrong")
BESIDE_THEN_ALONE = ["beside", "given back", "alone"]


@pytest.mark.parametrize(
    ("outcomes", "status", "taken"),
    [
        ([RAN_OUT, WRONG], "wrong_value", BESIDE_THEN_ALONE),
        ([OF_THE_REFERENCE, RAN_OUT], "out_of_memory", BESIDE_THEN_ALONE),
        ([torch.OutOfMemoryError(), WRONG], "wrong_value", BESIDE_THEN_ALONE),
        ([MemoryError(), WRONG], "wrong_value", BESIDE_THEN_ALONE),
        ([WRONG], "wrong_value", ["beside"]),
    ],
)
def test_a_solution_that_ran_out_of_memory_is_judged_once_more_alone(service, monkeypatch, outcomes, status, taken):
    memory = Memory(service, monkeypatch)
    coming = iter(outcomes)

    def evaluated(*_: object) -> tuple[Failed, str]:
        service._open_case()
        outcome = next(coming)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome, "name"

    monkeypatch.setattr(service, "_evaluated", evaluated)
    monkeypatch.setattr(main, "decode_options", lambda _: SimpleNamespace())
    assignment = {"process": 0, "verify": True, "options": {}, "follows": False, "other_cases": [], "derived_cases": []}
    request = {
        "solution": SPEC,
        "assignment": assignment | {"underived": "", "next_compilers": [], "is_unchanged": False},
        "left_s": None,
    }
    request |= {"reference": {"artefacts": "", "compiler": ""}}
    assert service.do_evaluate(request)["outcome"]["status"] == status
    assert memory.taken == taken


def test_those_still_expected_go_on_getting_ready(service: main.JudgeService) -> None:
    service._start_ahead(["", "graphs"])
    take(service, "")
    service._start_ahead(["graphs", ""])
    assert [worker.number for worker in service._ahead] == [2, 3]


def test_one_with_other_rights_is_replaced_and_so_is_what_follows(service: main.JudgeService) -> None:
    service._start_ahead(["", "graphs"])
    before = list(service._ahead)
    taken = take(service, "graphs")
    assert (taken.number, taken.compiler, taken.alive) == (3, "graphs", True)
    assert not any(worker.alive for worker in before)


class FakeEvaluation:
    """Writes down when it is closed; its outcome is that of the class."""

    outcome: ClassVar[Passed | Failed | Exception]

    def __init__(self, _judge: object, candidate: Worker, _assignment: object):
        self._candidate = candidate

    def run(self) -> Passed | Failed:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def close(self) -> None:
        self._candidate.kill()


PASSED = Passed(correctness=CORRECT, timings=(), findings=())
FAILED = Failed(status=Status.ILLEGAL_ACCESS, reason="misaligned")


@pytest.mark.parametrize(("outcome", "lives"), [(PASSED, True), (FAILED, False), (ValueError("ours"), False)])
def test_the_parent_does_not_wait_for_the_end_of_what_passed(service, monkeypatch, outcome, lives):
    """The end of a process on a GPU takes 0.1 s; one that may have broken the device ends before that is probed."""
    monkeypatch.setattr(main, "Evaluation", FakeEvaluation)
    monkeypatch.setattr(FakeEvaluation, "outcome", outcome, raising=False)
    service._reference = "the reference"
    service._start_ahead(["graphs"])
    (worker,) = service._ahead
    with contextlib.suppress(ValueError):
        service._evaluated(SolutionSpec(**SPEC), service._config, SimpleNamespace(next_compilers=[]))
    assert worker.alive == lives
    service.afterwards.close()
    assert not worker.alive


def test_the_judge_goes_on_where_the_end_of_what_passed_fails(service, monkeypatch, capsys):
    """The next solution would be blamed for the end of the judge."""
    worker = service._start_worker("")

    def fails() -> None:
        raise RuntimeError("the driver refused a call")

    def answers(_: object) -> dict[str, str]:
        service.afterwards.callback(worker.kill)
        service.afterwards.callback(fails)
        return {"outcome": "passed"}

    requests, answered = iter([{"n": 1, "op": "evaluate"}, {"n": 2, "op": "start"}]), []

    def receive(_timeout_s: float | None = None) -> dict[str, Any]:
        try:
            return next(requests)
        except StopIteration:
            raise PeerGoneError from None

    service._channel = SimpleNamespace(receive=receive, send=answered.append)
    monkeypatch.setattr(service, "do_evaluate", answers)
    service.serve()
    assert answered == [{"n": 1, "outcome": "passed"}, {"n": 2}]
    assert not worker.alive
    assert "the driver refused a call" in capsys.readouterr().err


@pytest.mark.parametrize("times", [True, False])
def test_the_judge_opens_a_gpu_ahead_under_the_lock_and_not_while_somebody_times(service, monkeypatch, times):
    done, opened = [], threading.Event()

    @contextlib.contextmanager
    def shared(wait: Wait) -> Iterator[None]:
        is_ahead = wait.timeout_s == 0.0
        if times and is_ahead:
            raise DeviceBusyError("a timing")
        done.append("ahead" if is_ahead else "shared")
        if is_ahead:
            time.sleep(0.05)  # a process may ask for one lock at a time
        yield
        done.append("given back")

    gpu = SimpleNamespace(
        has_own_memory=True, queues_calls=True, open_ahead=lambda: opened.wait(60) and done.append("opened")
    )
    admission = SimpleNamespace(shared=shared)
    for module in (start, state):
        monkeypatch.setattr(module, "backend", lambda _: gpu)
    monkeypatch.setattr(start, "Admission", lambda **_: admission)
    monkeypatch.setattr(main.JudgeService, "_admission", admission)
    service._config = replace(service._config, uuid="GPU-1")
    service._opens = start.opening({"device": "cuda", "uuid": "GPU-1", "holder": "", "leases": ""})
    opened.set()
    with service.shared():
        pass
    ahead = ["ahead", "opened", "given back"]
    assert done == [*([] if times else ahead), "shared", "given back"]


def test_no_device_is_opened_ahead_where_there_is_none() -> None:
    assert start.opening({"device": "cpu", "uuid": "CPU-1", "holder": "", "leases": ""}) is None


def test_a_case_that_is_put_away_leaves_no_worker_of_the_last_solution(service: main.JudgeService) -> None:
    worker = service._start_worker("")
    service.afterwards.callback(worker.kill)
    service._free_case()
    assert not worker.alive


def test_the_worker_that_comes_next_opens_a_gpu_meanwhile(service, monkeypatch):
    """One that cannot leaves its place to another: there may be room for it later."""
    monkeypatch.setattr(state, "backend", lambda _: SimpleNamespace(queues_calls=True))
    service._start_ahead(["", "graphs"])
    first, second = service._ahead
    with service.workers_open():
        assert (first.opened, second.opened) == (service._config.options.mode, None)
    assert service._ahead == [first, second]
    take(service, "")
    with service.workers_open():
        pass
    assert service._ahead == []
    assert not second.alive
    with service.workers_open():
        pass


def test_a_solution_does_not_wait_for_what_the_next_worker_imports(service, monkeypatch):
    """Inductor takes 3 s, which the solution's timing hides; a case cannot be used before its first worker is ready."""
    monkeypatch.setattr(state, "backend", lambda _: SimpleNamespace(queues_calls=True))
    service._start_ahead([""])
    (worker,) = service._ahead
    worker.is_ready = False
    service._reference = "the reference"
    with service.workers_open():
        assert worker.opened is None
    service._reference = None
    with service.workers_open():
        assert worker.opened is not None


def test_a_rule_of_kbenchs_own_comes_with_a_hint_and_other_errors_with_a_traceback() -> None:
    ruled = main.describe(PluginError("is sparse", hint="write `to_dense`"))
    assert (ruled["stage"], ruled["message"], ruled["traceback"]) == ("reference", "is sparse", "write `to_dense`")
    for error in (PluginError("cannot be imported"), ReferenceRaisedError("KeyError"), KeyError("x")):
        error.__cause__ = None if isinstance(error, KeyError) else KeyError("x")
        assert "KeyError: 'x'" in main.describe(error)["traceback"]


@pytest.mark.parametrize(("inputs", "line"), [("[torch.rand(features) @ 0]", 6), ("missing", 6)])
def test_the_trace_of_a_problem_has_its_own_lines_alone(tmp_path, inputs, line) -> None:
    path = tmp_path / "problem.py"
    path.write_text(
        f"import torch\nclass Model(torch.nn.Module):\n    pass\nfeatures = 4\ndef get_inputs():\n    return {inputs}\n"
    )
    with pytest.raises((TypeError, NameError)) as raised:
        problem.load(path, {}, "cpu").inputs(0)
    lines = str(main.describe(raised.value)["traceback"]).splitlines()
    assert lines[0] == f"{path}:{line}, in get_inputs: return {inputs}"
    assert not any("catalog/problem.py" in each for each in lines), lines


def test_the_trace_of_an_import_is_the_problems(tmp_path) -> None:
    path = tmp_path / "problem.py"
    path.write_text("import torch\nimport no_such_module\n")
    with pytest.raises(PluginError) as raised:
        problem.load(path, {}, "cpu")
    assert str(main.describe(raised.value)["traceback"]).startswith(f"{path}:2, in <module>")
