"""Workers that get ready before their solution's turn comes: which are kept, replaced and taken."""

from types import SimpleNamespace

import pytest

from kbench.children.worker_start import WorkerConfig
from kbench.core.errors import PluginError, ReferenceRaisedError
from kbench.judge import main


class Worker:
    def __init__(self, _config: WorkerConfig, _nursery: None, number: int, *, compiler: str):
        self.number, self.compiler = number, compiler
        self.alive = True
        self.child = SimpleNamespace(watch_memory=lambda _: None)

    def prepare(self) -> None:
        self.prepared = True

    def kill(self) -> None:
        self.alive = False


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> main.JudgeService:
    monkeypatch.setattr(main, "StartedWorker", Worker)
    monkeypatch.setattr(main, "Candidate", lambda _spec, _config, worker: worker)
    monkeypatch.setattr(main, "start_nursery", lambda _config: SimpleNamespace(has_ended=False))
    return main.JudgeService(None, WorkerConfig(device="cpu", rung=0, scratch="/nowhere"))


def take(service: main.JudgeService, compiler: str) -> Worker:
    return service.fresh_worker(compiler)


def test_those_expected_are_taken_in_order(service: main.JudgeService) -> None:
    service._expect(["", "graphs"])
    assert (take(service, "").number, take(service, "graphs").number) == (1, 2)


def test_the_reference_gets_the_worker_that_is_spare(service: main.JudgeService) -> None:
    service._spare = spare = service._start_worker("")
    service._open_reference_worker("problem.py")
    assert service._spare is None
    assert service.take_reference_worker("problem.py") is spare
    assert spare.prepared
    service._end_reference_worker()
    assert not spare.alive


def test_a_worker_of_the_reference_is_started_where_none_was_expected(service: main.JudgeService) -> None:
    taken = service.take_reference_worker("problem.py")
    assert (taken.number, taken.prepared) == (1, True)


def test_those_still_expected_go_on_getting_ready(service: main.JudgeService) -> None:
    service._expect(["", "graphs"])
    take(service, "")
    service._expect(["graphs", ""])
    assert [worker.number for worker in service._ahead] == [2, 3]


def test_one_with_other_rights_is_replaced_and_so_is_what_follows(service: main.JudgeService) -> None:
    service._expect(["", "graphs"])
    before = list(service._ahead)
    taken = take(service, "graphs")
    assert (taken.number, taken.compiler, taken.alive) == (3, "graphs", True)
    assert not any(worker.alive for worker in before)


def test_a_nursery_that_ended_is_replaced(service: main.JudgeService) -> None:
    """The solutions that follow must not pay for its end."""
    service._expect([])
    assert service._nursery is None, "nobody needs one yet"
    service._expect([""])
    first = service._nursery
    service._expect(["", ""])
    assert service._nursery is first
    first.has_ended = True
    service._expect(["", "", ""])
    assert service._nursery not in (None, first)


def test_none_is_left_behind(service: main.JudgeService) -> None:
    service._expect(["graphs", "kernels"])
    before = list(service._ahead)
    service._expect([])
    assert service._ahead == []
    assert not any(worker.alive for worker in before)


def test_a_rule_of_kbenchs_own_comes_with_a_hint_and_other_errors_with_a_traceback() -> None:
    ruled = main.describe(PluginError("is sparse", hint="write `to_dense`"))
    assert (ruled["stage"], ruled["message"], ruled["traceback"]) == ("reference", "is sparse", "write `to_dense`")
    for error in (PluginError("cannot be imported"), ReferenceRaisedError("KeyError"), KeyError("x")):
        error.__cause__ = None if isinstance(error, KeyError) else KeyError("x")
        assert "KeyError: 'x'" in main.describe(error)["traceback"]
