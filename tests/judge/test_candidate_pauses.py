"""A worker stands still from its answer until it is asked again."""

import contextlib
import time
from types import SimpleNamespace

import pytest

from kbench.core.model import Status
from kbench.judge.candidate import Candidate
from kbench.judge.refusal import RefusalError
from kbench.process.child_error import ChildError
from kbench.process.observed import Observed
from kbench.process.worker_start import WorkerConfig


class Child:
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
    return Candidate(spec, WorkerConfig(device="cpu", rung=0, scratch="/nowhere"), Child())


def ask(candidate: Candidate) -> None:
    candidate.ask({"op": "ask"})


def test_it_stands_still_until_it_is_asked(candidate) -> None:
    candidate.pause()
    assert candidate.worked_until_ns == 1000
    with candidate.stopped():
        candidate.worker.seen.append("fill")
    assert candidate.worker.seen == ["stop", "fill"], "what stands still goes on standing still"
    ask(candidate)
    assert candidate.worker.seen == ["stop", "fill", "go", "ask"]


def test_without_a_pause_it_runs_on_after_a_stop(candidate) -> None:
    with candidate.stopped():
        candidate.worker.seen.append("fill")
    ask(candidate)
    assert candidate.worker.seen == ["stop", "fill", "go", "ask"]


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
