"""What a worker is told when it is bound, who is blamed where it fails, and when it stands still."""

import contextlib
import time
from types import SimpleNamespace

import pytest
import torch

from kbench.core.model import Status
from kbench.judge import candidate as module
from kbench.judge.candidate import Candidate
from kbench.judge.refusal import RefusalError
from kbench.process.child_error import ChildError
from kbench.process.observed import Observed
from kbench.process.worker_start import WorkerConfig


class Child:
    """A worker that answers everything; `parameter` is what its constructor drew."""

    log = ""

    def __init__(self, parameter: torch.Tensor):
        self.parameter = parameter
        self.view = torch.zeros_like(parameter)
        self.asked: list[str] = []
        self.observed = Observed()

    def request(self, message, **_):
        self.asked.append(message["op"])
        if message["op"] == "read_weights":
            self.view.copy_(self.parameter)
        return {}

    def kill(self) -> None:
        self.asked.append("kill")


def bound(
    parameter: float | torch.Tensor,
    *,
    ours: torch.Tensor | None = None,
    is_reference: bool = False,
    is_buffer: bool = False,
) -> Candidate:
    """Bind a worker to a reference whose parameter, or buffer, is 1, or `ours`."""
    child = Child(torch.as_tensor(parameter).expand(1) if isinstance(parameter, float) else parameter)
    spec = SimpleNamespace(compiler="", is_reference=is_reference)
    candidate = Candidate(spec, WorkerConfig(device="cpu", rung=0, scratch="/nowhere"), child)
    candidate.weights, candidate._theirs = "name", {"w": "w"}
    state = [("w", torch.ones(1) if ours is None else ours)]
    reference = SimpleNamespace(
        gradients=None,
        state=lambda: state,
        model=SimpleNamespace(named_parameters=lambda: [] if is_buffer else state),
        reshapes=False,
        drifts=frozenset(),
    )
    arena = SimpleNamespace(describe=lambda _: ({"op": "bind"}, []), weight_views=lambda: [child.view])
    candidate.bind(reference, arena)
    return candidate


@pytest.mark.parametrize(("builtin", "limit_s"), [("", 60.0), ("eager", 300.0)])
def test_the_problems_model_may_take_as_long_to_construct_as_in_the_judge(monkeypatch, builtin, limit_s) -> None:
    candidate = bound(1.0)
    candidate.spec.builtin = builtin
    asked = []
    monkeypatch.setattr(module, "load_request", lambda *_: ({"blocks": []}, SimpleNamespace(close=lambda: None)))
    monkeypatch.setattr(candidate, "ask", lambda *told: asked.append(told) or {"state": []})
    candidate.load(SimpleNamespace(aliased=frozenset(), call_s=0.0, state=list))
    assert asked[0][2] == limit_s


def test_parameters_that_both_constructors_made_alike_are_copied() -> None:
    candidate = bound(1.0)
    assert candidate.worker.asked == ["bind", "read_weights", "weights"]
    assert not candidate.differing


def test_all_workers_report_to_one_record() -> None:
    """Reports may be long: records that are joined at each request would be part of its time."""
    candidate = bound(1.0)
    candidate.worker.observed.files.append("/first")
    candidate.revive(Child(torch.ones(1)))
    candidate.worker.observed.needs.append("ran `g++`")
    assert candidate.observed == Observed(files=["/first"], needs=["ran `g++`"])


@pytest.mark.parametrize(
    ("value", "is_buffer", "buffers"), [(1.0, True, set()), (2.0, True, {"w"}), (2.0, False, set())]
)
def test_what_the_constructors_made_different_is_known(value, is_buffer, buffers) -> None:
    candidate = bound(value, is_buffer=is_buffer)
    assert candidate.differing == ({"w"} if value != 1 else set())
    assert candidate.differing_buffers == buffers


def test_one_that_the_constructor_transposed_is_told() -> None:
    ours = torch.rand(3, 3)
    assert bound(ours.t(), ours=ours).transposed == "its `w` is the reference's `w` transposed"
    assert bound(torch.rand(3, 3), ours=ours).transposed == ""


def test_the_reference_gets_its_own_always() -> None:
    """It is bound after the judge has drawn parameters anew."""
    candidate = bound(2.0, is_reference=True)
    assert candidate.worker.asked == ["bind", "weights"]


@pytest.mark.parametrize(
    ("failed", "is_reference", "status"),
    [
        (Status.CRASHED, False, Status.CRASHED),
        (Status.CRASHED, True, Status.HARNESS_ERROR),
        (Status.OUT_OF_MEMORY, True, Status.NOT_VERIFIED),
        (Status.CALL_TIMEOUT, True, Status.CALL_TIMEOUT),
    ],
)
def test_a_solution_is_not_blamed_for_the_process_of_the_reference(failed, is_reference, status) -> None:
    candidate = bound(1.0, is_reference=is_reference)

    def fail(message, **_):
        raise ChildError(failed, f"{message['op']} failed")

    candidate.worker.request = fail
    with pytest.raises(RefusalError, match="unbind failed") as refused:
        candidate.ask({"op": "unbind"})
    assert refused.value.status is status


def test_a_worker_that_is_not_ready_in_time_is_killed() -> None:
    """Another thread waits for its answer, and would take that to the next request for it."""
    candidate = bound(1.0)
    candidate.spec.artefacts = ""
    killed = []

    def wait(_timeout_s: float) -> None:
        raise ChildError(Status.CALL_TIMEOUT, "not ready within 120 s")

    candidate.worker.open = lambda *_, **__: None
    candidate.worker.wait, candidate.worker.kill = wait, lambda: killed.append(True)
    with pytest.raises(RefusalError, match="not ready") as refused:
        candidate.prepare()
    assert refused.value.status is Status.HARNESS_ERROR
    assert killed


class Stoppable:
    """A worker that writes down when it stands still, goes on, and is asked."""

    log = ""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.observed = Observed()

    @contextlib.contextmanager
    def stopped(self):
        self.seen.append("stop")
        yield SimpleNamespace(worked_until_ns=1000 * len(self.seen))
        self.woken_ns = len(self.seen)
        self.seen.append("go")

    def request(self, message, **_):
        self.seen.append(message["op"])
        return {}

    def kill(self):
        self.seen.append("kill")

    def post(self, message):
        self.seen.append(f"ask {message['slots']}")

    def hear(self, _timeout_s):
        self.seen.append("answer")
        return {
            "event_ns": 1,
            "submit_ns": 1,
            "sum_ns": 2,
            "outputs": [],
            "process": 1,
            "places": [],
            "unchecked": "",
            "peak_bytes": 0,
        }


@pytest.fixture
def candidate() -> Candidate:
    spec = SimpleNamespace(compiler="", is_reference=False)
    return Candidate(spec, WorkerConfig(device="cpu", rung=0, scratch="/nowhere"), Stoppable())


def test_it_stands_still_until_it_is_asked(candidate) -> None:
    candidate.pause()
    assert candidate.worked_until_ns == 1000
    candidate.pause()
    assert candidate.worker.seen == ["stop"], "what stands still goes on standing still"
    candidate.ask({"op": "ask"})
    assert candidate.worker.seen == ["stop", "go", "ask"]


def test_it_is_killed_where_it_stands(candidate) -> None:
    candidate.pause()
    candidate.kill()
    assert candidate.worker.seen[-1] == "kill"
    assert candidate.worker.seen.count("go") == candidate.worker.seen.count("stop") == 1


def test_progress_without_end_ends_with_the_time_of_the_round(candidate) -> None:
    """Each message must not begin it anew."""
    limits: list[float] = []

    def hear(timeout_s: float) -> dict[str, str]:
        limits.append(timeout_s)
        if timeout_s <= 0:
            raise ChildError(Status.CALL_TIMEOUT, "no answer")
        time.sleep(0.05)
        return {"progress": "queued"}

    candidate.worker.hear = hear
    candidate.limit_s = 0.2
    with pytest.raises(RefusalError, match="no answer"):
        candidate.finish_round(1)
    assert limits == sorted(limits, reverse=True)
    assert len(limits) < 10


@pytest.mark.parametrize("status", [Status.CALL_TIMEOUT, Status.CRASHED])
def test_only_silence_means_that_a_round_is_late(candidate, status) -> None:
    def hear(timeout_s: float) -> dict[str, str]:
        raise ChildError(status, "gone")

    candidate.worker.hear = hear
    if status is Status.CALL_TIMEOUT:
        assert candidate.announced(1.0) is None
        return
    with pytest.raises(RefusalError):
        candidate.announced(1.0)


@pytest.mark.parametrize(("status", "killed"), [(Status.CALL_TIMEOUT, True), (Status.RAISED, False)])
def test_a_worker_that_leaves_a_request_unanswered_is_killed(candidate, status, killed) -> None:
    """Its late answer would be taken for one to the next request."""

    def request(message: object, **_: object) -> dict[str, str]:
        raise ChildError(status, "no answer")

    candidate.worker.request = request
    with pytest.raises(RefusalError, match="no answer"):
        candidate.ask({"op": "unbind"})
    assert ("kill" in candidate.worker.seen) == killed


@pytest.mark.parametrize("kill", [False, True])
def test_a_request_lasts_from_before_it_is_woken_until_it_is_stopped(candidate, kill) -> None:
    """What wakes up sees the inputs, and may keep the judge from the processor before it has asked."""
    child = candidate.worker
    child.channel = SimpleNamespace(received_ns=7)
    candidate.pause()
    reply = candidate.call((), [], kill=kill)
    assert child.seen == ["stop", "ask []", "go", "answer", "kill" if kill else "stop"]
    assert reply.wall_ns == (1000 if kill else 5000) - 2, "from before it goes on"
