"""A worker stands still from its answer until it is asked again."""

import contextlib
from types import SimpleNamespace

import pytest

from kbench.core.model import Status
from kbench.isolation.candidate import Candidate
from kbench.isolation.workers import WorkerConfig


class Child:
    log = ""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @contextlib.contextmanager
    def stopped(self):
        self.seen.append("stop")
        yield
        self.seen.append("go")

    def request(self, message, **_):
        self.seen.append(message["op"])
        return {}


@pytest.fixture
def candidate() -> Candidate:
    child = Child()
    worker = SimpleNamespace(child=child, kill=lambda: child.seen.append("kill"))
    return Candidate(SimpleNamespace(), WorkerConfig(device="cpu", rung=0, scratch="/nowhere"), worker)


def ask(candidate: Candidate) -> None:
    candidate._ask({"op": "ask"}, 1.0, Status.CALL_TIMEOUT)


def test_it_stands_still_until_it_is_asked(candidate) -> None:
    candidate.pause()
    with candidate.stopped():
        candidate._child.seen.append("fill")
    assert candidate._child.seen == ["stop", "fill"], "what stands still goes on standing still"
    ask(candidate)
    assert candidate._child.seen == ["stop", "fill", "go", "ask"]


def test_without_a_pause_it_runs_on_after_a_stop(candidate) -> None:
    with candidate.stopped():
        candidate._child.seen.append("fill")
    ask(candidate)
    assert candidate._child.seen == ["stop", "fill", "go", "ask"]


def test_it_is_killed_where_it_stands(candidate) -> None:
    candidate.pause()
    candidate.kill()
    assert candidate._child.seen[-1] == "kill"
    assert candidate._child.seen.count("go") == candidate._child.seen.count("stop") == 1
