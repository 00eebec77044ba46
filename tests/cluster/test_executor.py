"""The driver of a cluster, with scripted supervisors: who gets what, what is written, and what a death leads to."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from sweeping import OPTIONS, failed, passed, task

from kbench.build.interpreter import PACKAGE
from kbench.cluster import executor
from kbench.cluster.executor import Cluster, RemoteDevice
from kbench.cluster.membership import Member
from kbench.cluster.supervisor import Over, UnitDone
from kbench.core.errors import MachineError, UsageError
from kbench.core.model import Passed, Status
from kbench.devices import selection
from kbench.engine.crew import SweepOptions
from kbench.engine.task import DeviceState, Finished, Retried, Task, TaskVerdict
from kbench.engine.unit import UnitResult

VERSIONS = {"kbench": "1", "Python": "3", "torch": "2"}


class DiedError(Exception):
    """What Ray raises when a supervisor's process or node is gone."""


class Remote:
    """An actor's method: `remote` calls it at once."""

    def __init__(self, method):
        self.remote = method


class FakeSupervisor:
    """Judges what it is given at once, unless the script says that it dies of it or that the task fails."""

    def __init__(self, host: str, script: dict[str, object]):
        self.host, self.script = host, script
        self.given: list[str] = []
        self.news: list[object] = []
        self.start = Remote(lambda _options, _peers: script.get("start", ""))
        self.add = Remote(self._add)
        self.stop = Remote(lambda: self.given.append("stop"))
        self.events = Remote(self._events)

    def _add(self, tasks: Sequence[Task], _parcels: object, known: dict[str, tuple[UnitResult, ...]]) -> None:
        for key in (one.key for one in tasks):
            self.given.append(key)
            match self.script.get(key):
                case "die":
                    self.news.append(DiedError("the node died\nand more"))
                    return
                case "leave":
                    self.news.append(Over(reason="quarantined"))
                    return
                case ("tell", last):
                    self.news += [UnitDone(key=key, result=passed(timed=False)), last]
                    return
                case UnitResult() as result:
                    pass
                case _:
                    result = passed(timed=False)
            self.news.append(UnitDone(key=key, result=result))

    def _events(self) -> Iterator[object]:
        return iter(())


@pytest.fixture(autouse=True)
def ray(monkeypatch: pytest.MonkeyPatch) -> None:
    exceptions = SimpleNamespace(RayError=DiedError)
    fake = SimpleNamespace(get=lambda found, timeout=None: found, kill=lambda _: None, exceptions=exceptions)
    monkeypatch.setattr(executor, "_ray", lambda: fake)


class Stage:
    """A cluster of scripted supervisors, read to its end in one thread."""

    def __init__(self, *scripts: dict[str, object]):
        device = selection.cpu()
        self.supervisors = [FakeSupervisor(f"host{number}", script) for number, script in enumerate(scripts)]
        posts = [
            RemoteDevice(actor=one, member=Member(host=one.host, device=device, versions=VERSIONS), peers=0)
            for one in self.supervisors
        ]
        self.written: list[tuple[str, int, Status]] = []
        options = SweepOptions(run=OPTIONS, devices=(device,), rung=0, lanes=1, jobs=1)
        self.cluster = Cluster(options, Path("/nowhere"), self._write, posts)
        self.posts = posts
        news = self.cluster._inbox
        self.cluster._inbox = SimpleNamespace(get=self._next, put=news.put)

    def _write(self, verdict: TaskVerdict) -> None:
        self.written.append((verdict.task.key, len(verdict.results) - 1, verdict.last.status))

    def _next(self) -> tuple[RemoteDevice, object]:
        return next((post, post.actor.news.pop(0)) for post in self.posts if post.actor.news and not post.is_gone)

    def run(self, *tasks: Task, known: dict[str, tuple[UnitResult, ...]] | None = None) -> list[object]:
        self.cluster.start()
        self.cluster.add(tasks, known)
        self.cluster.finish()
        return list(self.cluster.events())


def shipped(number: int) -> Task:
    """Return the task of a shipped problem, whose source need not travel."""
    path = PACKAGE / "problems" / "group_norm.py"
    one = task(number)
    return replace(one, problem=replace(one.problem, path=path), solution=replace(one.solution, path=path))


TASKS = [shipped(number) for number in range(1, 6)]


def verdicts(events: Sequence[object]) -> dict[str, Status]:
    return {event.verdict.task.key: event.verdict.status for event in events if isinstance(event, Finished)}


def test_all_supervisors_judge_and_every_unit_is_written_once() -> None:
    stage = Stage({}, {"k2": failed(Status.WRONG_VALUE)})
    found = verdicts(stage.run(*TASKS))
    assert found == dict.fromkeys(["k1", "k2", "k3", "k4", "k5"], Status.PASSED) | {
        key: Status.WRONG_VALUE for key in ["k2"] if key in stage.supervisors[1].given
    }
    assert sorted(key for key, _, _ in stage.written) == ["k1", "k2", "k3", "k4", "k5"]
    assert all(supervisor.given for supervisor in stage.supervisors)
    assert stage.cluster.reason == ""


def test_where_no_cluster_answers_it_says_how_to_start_one() -> None:
    with (
        pytest.raises(MachineError, match=r"no Ray cluster answers at 127\.0\.0\.1:1: ") as refused,
        executor.connected("127.0.0.1:1", "cpu"),
    ):
        pass
    assert "ray start --head" in refused.value.hint


def test_units_that_are_known_are_not_judged_again() -> None:
    stage = Stage({})
    stage.run(TASKS[0], known={"k1": (passed(timed=False),)})
    assert stage.written == [("k1", 1, Status.PASSED)]


def test_what_a_dead_supervisor_had_goes_to_another_and_the_record_says_so() -> None:
    stage = Stage({"k1": "die"}, {})
    events = stage.run(*TASKS)
    assert verdicts(events) == dict.fromkeys(["k1", "k2", "k3", "k4", "k5"], Status.PASSED)
    (lost,) = [event for event in events if isinstance(event, DeviceState)]
    assert (lost.state, lost.reason) == ("lost", "the node died")
    assert next(event.task.key for event in events if isinstance(event, Retried)) == "k1"
    (moved,) = [e.verdict.last for e in events if isinstance(e, Finished) and e.verdict.task.key == "k1"]
    assert moved.attempts == 2
    assert isinstance(moved.outcome, Passed)
    assert [finding.code for finding in moved.outcome.findings] == ["host_lost"]


@pytest.mark.parametrize("last", [DiedError("the node died"), Over(reason="quarantined")])
def test_a_task_whose_last_unit_was_told_is_not_judged_again(last: object) -> None:
    stage = Stage({"k1": ("tell", last)}, {})
    events = stage.run(*TASKS)
    assert verdicts(events) == dict.fromkeys(["k1", "k2", "k3", "k4", "k5"], Status.PASSED)
    assert [key for key, _, _ in stage.written].count("k1") == 1
    assert not [event for event in events if isinstance(event, Retried) and event.task.key == "k1"]


def test_three_deaths_are_the_tasks_fault_and_end_nothing_else() -> None:
    killer = {"k1": "die"}
    stage = Stage(killer, killer, killer, {})
    found = verdicts(stage.run(*TASKS))
    assert found == dict.fromkeys(["k2", "k3", "k4", "k5"], Status.PASSED) | {"k1": Status.CRASHED}
    assert [supervisor.given.count("k1") for supervisor in stage.supervisors] == [1, 1, 1, 0]


def test_when_none_is_left_the_sweep_ends_and_says_so() -> None:
    stage = Stage({"k1": "die"})
    assert verdicts(stage.run(*TASKS)) == {}
    assert stage.cluster.reason == "no device is left"


def test_a_supervisor_whose_device_is_quarantined_blames_nobody() -> None:
    stage = Stage({"k1": "leave"}, {})
    events = stage.run(*TASKS)
    assert set(verdicts(events).values()) == {Status.PASSED}
    assert not [event for event in events if isinstance(event, Retried)]


def test_retries_of_a_supervisor_are_told() -> None:
    stage = Stage({})
    stage.supervisors[0].news.append(Retried(task=task(1), attempt=1, reason="the judge is gone"))
    (retried,) = [event for event in stage.run(TASKS[0]) if isinstance(event, Retried)]
    assert (retried.task, retried.attempt) == (TASKS[0], 1), "the driver's own task"


def test_a_host_that_cannot_judge_is_named() -> None:
    with pytest.raises(MachineError, match="host1: the sandbox"):
        Stage({}, {"start": "the sandbox does not work here"}).cluster.start()


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError) as raised, executor.connected(None, "cpu"):
        pass
    assert "kbench[ray]" in (raised.value.hint or "")
