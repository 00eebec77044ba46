"""Workers that get ready before their solution's turn comes: which are kept, replaced and taken."""

from types import SimpleNamespace

import pytest

from kbench.isolation import judge
from kbench.isolation.workers import WorkerConfig


class Worker:
    def __init__(self, _config: WorkerConfig, number: int, *, allow_exec: bool):
        self.number, self.allow_exec = number, allow_exec
        self.alive = True
        self.child = SimpleNamespace(memory_limit_bytes=0)

    def kill(self) -> None:
        self.alive = False


@pytest.fixture
def court(monkeypatch: pytest.MonkeyPatch) -> judge.Judge:
    monkeypatch.setattr(judge, "StartedWorker", Worker)
    monkeypatch.setattr(judge, "Candidate", lambda _spec, _config, worker: worker)
    return judge.Judge(None, WorkerConfig(device="cpu", rung=0, scratch="/nowhere"))


def take(court: judge.Judge, *, just_in_time: bool) -> Worker:
    return court._take_worker(SimpleNamespace(just_in_time=just_in_time), court._config)


def test_those_expected_are_taken_in_order(court: judge.Judge) -> None:
    court._expect([False, True])
    assert (take(court, just_in_time=False).number, take(court, just_in_time=True).number) == (1, 2)


def test_those_still_expected_go_on_getting_ready(court: judge.Judge) -> None:
    court._expect([False, True])
    take(court, just_in_time=False)
    court._expect([True, False])
    assert [worker.number for worker in court._ahead] == [2, 3]


def test_one_with_other_rights_is_replaced_and_so_is_what_follows(court: judge.Judge) -> None:
    court._expect([False, True])
    before = list(court._ahead)
    taken = take(court, just_in_time=True)
    assert (taken.number, taken.allow_exec, taken.alive) == (3, True, True)
    assert not any(worker.alive for worker in before)


def test_none_is_left_behind(court: judge.Judge) -> None:
    court._expect([True, True])
    before = list(court._ahead)
    court._expect([])
    assert court._ahead == []
    assert not any(worker.alive for worker in before)
