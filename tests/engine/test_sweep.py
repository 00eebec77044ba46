"""A sweep with judges that follow a script: what is recorded, retried, halted, and which devices go on."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from sweeping import OPTIONS, PROBLEM, FakeJudge, failed, task
from waiting import wait_until

from kbench.cli.output import Output
from kbench.cli.progress import progress_for
from kbench.core.model import Failed, Status
from kbench.devices import selection
from kbench.devices.admission import signature
from kbench.engine import guard as guards
from kbench.engine import journal
from kbench.engine import lane as lanes
from kbench.engine.crew import Crew, SweepOptions
from kbench.engine.dispatch import MOST_BATCHES, Dispatcher
from kbench.engine.journal import Header
from kbench.engine.ladder import unfinished
from kbench.engine.sweep import Sweep
from kbench.engine.task import DeviceState, Finished, Retried, SweepEvent, SweepPlanned, Task
from kbench.host import health
from kbench.storage.journal_file import SUFFIX
from kbench.storage.results import read_run

S = Status
CPU = selection.cpu()
OTHER = replace(CPU, uuid="CPU-other")


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(guards, "WAITS_S", (0.0, 0.0))


class Stage:
    """Runs sweeps of scripted judges in one folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.judges: list[FakeJudge] = []
        self.script: dict[str, list] = {}
        self.hangs: set[str] = set()
        self.waits_for: list[str] = []

    def make(self, _device, guard, _scratch) -> FakeJudge:
        judge = FakeJudge(self.script, guard)
        judge.hangs = self.hangs
        judge.waits_for = self.waits_for
        self.judges.append(judge)
        return judge

    def run(self, tasks: list[Task], *, devices=(CPU,), lanes=1, resume=False, **told) -> Iterator[SweepEvent]:
        path = self.folder / f"one{SUFFIX}"
        record = journal.read(path) if resume else None
        options = replace(OPTIONS, results_dir=self.folder, **told.pop("options", {}))
        tasks = [replace(one, options=options) for one in tasks]
        left, known = unfinished(tasks, record.results if record else {}, **told)
        header = Header(run="one", started_utc="2026-11-23T00:00:00+00:00", arguments={})
        self.sweep = Sweep(tasks=tasks, left=left, known=known, header=header, journal=path, resumed=record)
        asked = SweepOptions(run=options, devices=devices, rung=0, lanes=lanes, jobs=1)
        return self.sweep.judge(asked, lambda options, scratch, write: Crew(options, scratch, write, self.make))

    @property
    def judged(self) -> list[tuple[str, int]]:
        return [unit for judge in self.judges for unit in judge.judged]


@pytest.fixture
def stage(tmp_path) -> Stage:
    return Stage(tmp_path)


def many(folder: Path, count: int, **changes) -> list[Task]:
    return [task(number, folder, problem=f"p{number % 3}", **changes) for number in range(count)]


def statuses(events: list[SweepEvent]) -> dict[str, str]:
    return {e.verdict.task.key: e.verdict.status.value for e in events if isinstance(e, Finished)}


def test_every_task_gets_its_verdict_whoever_fails(stage) -> None:
    stage.script = {"s1": [S.WRONG_VALUE], "s4": [S.CRASHED]}
    events = list(stage.run(many(stage.folder, 6), lanes=2))
    assert isinstance(events[0], SweepPlanned)
    assert stage.sweep.reason == ""
    wanted = {f"k{n}": "passed" for n in range(6)} | {"k1": "wrong_value", "k4": "crashed"}
    assert statuses(events) == wanted
    rows = {row.solution: row.status for row in read_run(Path(stage.sweep.summary().csv_path)).rows}
    assert rows == {f"s{key[1:]}": status for key, status in wanted.items()}
    assert len(journal.read(stage.folder / f"one{SUFFIX}").results) == 6


def test_problems_with_long_sources_come_first_and_the_file_keeps_the_order_asked(stage) -> None:
    tasks = many(stage.folder, 4)
    tasks[1].problem.path.write_text(PROBLEM + "# many layers\n")
    list(stage.run(tasks))
    (judge,) = stage.judges
    assert judge.turned == ["p1", "p0", "p2"]
    assert [row.solution for row in read_run(Path(stage.sweep.summary().csv_path)).rows] == ["s0", "s1", "s2", "s3"]


def test_another_process_that_uses_the_device_is_told_once_in_a_log_and_another_lane_never(stage, capsys) -> None:
    stage.waits_for = ["pid 7 (ann): kbench run gelu", f"{signature()}, and 1 more"]
    with progress_for(Output()) as show:
        for event in stage.run(many(stage.folder, 3)):
            show(event)
    told = [line for line in capsys.readouterr().err.splitlines() if "waiting" in line]
    assert told == [f"waiting for {CPU.name}, in use by pid 7 (ann): kbench run gelu"]


def test_what_refuses_to_parse_never_meets_a_judge(stage) -> None:
    refused = Failed(status=S.IMPORT_FAILED, reason="no ModelNew")
    events = list(stage.run([task(0, stage.folder, refused=refused), task(1, stage.folder)]))
    assert statuses(events) == {"k0": "import_failed", "k1": "passed"}
    assert stage.judged == [("s1", 0)]


def test_the_harnesss_own_failures_are_tried_again_and_told(stage) -> None:
    stage.script = {"s0": [S.HARNESS_ERROR, S.HARNESS_ERROR, S.PASSED], "s1": [S.HARNESS_ERROR]}
    events = list(stage.run(many(stage.folder, 2)))
    assert statuses(events) == {"k0": "passed", "k1": "harness_error"}
    assert len([event for event in events if isinstance(event, Retried)]) == 4
    attempts = {key: found[-1].attempts for key, found in journal.read(stage.folder / f"one{SUFFIX}").results.items()}
    assert attempts == {"k0": 3, "k1": 3}


def test_a_case_that_does_not_fit_is_not_judged_at_another_one(stage) -> None:
    """A verdict on a smaller case would count for the case that was asked for."""
    stage.script = {"s0": [failed(S.NOT_VERIFIED, "the case does not fit: CUDA out of memory"), S.PASSED]}
    large = task(0, stage.folder)
    large.problem.path.write_text("n = 4096\n" + PROBLEM.replace("return []", "return [n]", 1))
    list(stage.run([large]))
    (row,) = read_run(Path(stage.sweep.summary().csv_path)).rows
    assert (row.status, row.case) == ("not_verified", "default")
    assert stage.sweep.summary().fast == {}


def test_a_sweep_that_was_broken_off_is_resumed_and_only_the_rest_is_judged(stage) -> None:
    stage.script = {"s1": [S.WRONG_VALUE], "s2": [S.WRONG_VALUE, S.PASSED]}
    tasks = [task(number, stage.folder) for number in range(6)]
    events = stage.run(tasks)
    told = [next(event for event in events if isinstance(event, Finished)) for _ in range(2)]
    events.close()
    assert statuses(told) == {"k0": "passed", "k1": "wrong_value"}
    before = len(stage.judged)
    events = list(stage.run(tasks, resume=True))
    assert len(statuses(events)) == 6
    assert not {name for name, _ in stage.judged[before:]} & {"s0", "s1"}, "what is done is not repeated"
    before = len(stage.judged)
    events = list(stage.run(tasks, resume=True, again=set(S) - {S.PASSED}))
    assert statuses(events)["k2"] == "passed"
    assert {name for name, _ in stage.judged[before:]} == {"s1", "s2"}
    assert statuses(list(stage.run(tasks, resume=True))) == {
        **{f"k{n}": "passed" for n in range(6)},
        "k1": "wrong_value",
    }


def test_whoever_stops_listening_ends_it_and_nothing_told_is_lost(stage) -> None:
    stage.hangs = {"s3"}
    tasks = [task(number, stage.folder) for number in range(8)]
    events = stage.run(tasks)
    told = []
    for event in events:
        told.append(event)
        if len(statuses(told)) == 3:
            break
    events.close()
    known = journal.read(stage.folder / f"one{SUFFIX}").results
    assert set(known) == {"k0", "k1", "k2"}
    assert not [t for t in threading.enumerate() if t.name.startswith("Thread") and not t.daemon]
    assert len(read_run(stage.folder / "one.csv").rows) == 3
    stage.hangs.clear()
    assert len(statuses(list(stage.run(tasks, resume=True)))) == 8


def test_files_and_summary_of_an_interrupted_sweep_have_every_verdict_of_its_journal(stage) -> None:
    """Verdicts that nobody was told of: they were on the disk when the signal came."""
    stage.hangs = {"s5"}
    tasks = [task(number, stage.folder) for number in range(8)]
    path = stage.folder / f"one{SUFFIX}"
    events = stage.run(tasks)
    assert any(isinstance(event, Finished) for event in events)
    wait_until(lambda: len(journal.read(path).results) == 5)
    events.close()
    record = journal.read(path)
    assert list(record.results) == [f"k{n}" for n in range(5)]
    assert [row.solution for row in read_run(stage.folder / "one.csv").rows] == [f"s{n}" for n in range(5)]
    summary = stage.sweep.summary()
    assert (summary.done, summary.left, summary.resumed) == (5, 3, 0)
    assert summary.elapsed_s > 0
    assert summary.units_per_hour == record.units_per_hour


def test_an_interrupted_retry_keeps_the_verdicts_that_it_did_not_reach(stage) -> None:
    stage.script = {f"s{n}": [S.WRONG_VALUE] for n in range(3)}
    tasks = [task(number, stage.folder) for number in range(4)]
    list(stage.run(tasks))
    stage.script, stage.hangs = {}, {"s1"}
    events = stage.run(tasks, resume=True, again=set(S) - {S.PASSED})
    assert next(event for event in events if isinstance(event, Finished) and not event.verdict.resumed)
    events.close()
    rows = {row.solution: row.status for row in read_run(stage.folder / "one.csv").rows}
    assert rows == {"s0": "passed", "s1": "wrong_value", "s2": "wrong_value", "s3": "passed"}
    assert [verdict.resumed for verdict in stage.sweep.verdicts] == [False, True, True, True]


@pytest.fixture
def examined(monkeypatch) -> list[str | None]:
    """Answers of the probe, first to last; None says that the device is well, as does the end of the list."""
    answers: list[str | None] = []
    monkeypatch.setattr(health, "examine", lambda *_: answers.pop(0) if answers else None)
    return answers


def test_a_device_that_recovers_goes_back_into_service(stage, examined) -> None:
    """The crash on a device that turned out sick is tried again: nobody knows whose fault it was."""
    examined += ["no answer", "no answer", None]
    stage.script = {"s0": [S.ILLEGAL_ACCESS, S.PASSED]}
    events = list(stage.run(many(stage.folder, 2)))
    states = [event.state for event in events if isinstance(event, DeviceState)]
    assert states == ["suspect", "back in service"]
    assert statuses(events) == {"k0": "passed", "k1": "passed"}


def test_a_crash_on_a_device_that_is_well_is_the_solutions(stage, examined) -> None:
    stage.script = {"s0": [S.ILLEGAL_ACCESS, S.PASSED]}
    events = list(stage.run(many(stage.folder, 2)))
    assert statuses(events) == {"k0": "illegal_access", "k1": "passed"}
    assert not [event for event in events if isinstance(event, DeviceState)]


def test_without_a_device_left_the_sweep_ends_with_a_clear_word(stage, examined) -> None:
    examined += ["no answer"] * 9
    stage.script = {"s0": [S.ILLEGAL_ACCESS]}
    tasks = [task(number, stage.folder) for number in range(3)]
    events = list(stage.run(tasks))
    ended = stage.sweep
    assert "no device is left" in ended.reason
    assert statuses(events) == {}
    examined.clear()
    assert statuses(list(stage.run(tasks, resume=True)))["k2"] == "passed"


def test_another_device_goes_on(stage, monkeypatch) -> None:
    """One of two devices is sick for good: its tasks are judged by the other one."""
    monkeypatch.setattr(health, "examine", lambda device, *_: "no answer" if device.uuid == CPU.uuid else None)
    tasks = [task(number, stage.folder) for number in range(12)]
    crashed, judged = threading.Event(), list[str]()

    class Crashes(FakeJudge):
        def evaluate(self, unit, following=(), left=None):
            if self.guard.device.uuid == CPU.uuid:
                crashed.set()
                self.guard.look(S.CRASHED)
                return failed(S.CRASHED)
            crashed.wait(60)
            judged.append(unit.solution.name)
            return super().evaluate(unit, following, left)

    stage.make = lambda _device, guard, _scratch: Crashes({}, guard)
    events = list(stage.run(tasks, devices=(CPU, OTHER)))
    assert statuses(events) == {f"k{number}": "passed" for number in range(12)}
    assert sorted(judged) == sorted(one.solution.name for one in tasks)
    assert [e.state for e in events if isinstance(e, DeviceState)] == ["suspect", "out of service"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"timeout_s": 20.0}, [("s0", 18.5), ("s0", 20.0), ("s1", 20.0)]),
        ({}, [("s0", 600.0), ("s0", 600.0), ("s1", 600.0)]),
    ],
)
def test_a_solution_has_its_limit_for_all_attempts(stage, options, expected) -> None:
    left_s = []

    class Spends(FakeJudge):
        def evaluate(self, unit, following=(), left=None):
            left_s.append((unit.solution.name, left.seconds))
            left.spend({"open": 9.0, "wait": 5.0, "verify": 2.0}, of_problem_s=0.5)
            return super().evaluate(unit, following, left)

    stage.make = lambda _device, guard, _scratch: Spends({"s0": [S.HARNESS_ERROR, S.PASSED]}, guard)
    list(stage.run(many(stage.folder, 2), options=options))
    assert sorted(left_s) == expected


def test_an_error_of_a_thread_ends_the_sweep(stage) -> None:
    class Broken(FakeJudge):
        def turn_to(self, *_):
            raise RuntimeError("a defect")

    stage.make = lambda _device, guard, _scratch: Broken({}, guard)
    with pytest.raises(RuntimeError, match="a defect"):
        list(stage.run(many(stage.folder, 2)))


def test_a_problem_does_not_wait_for_ever_while_another_one_goes_on(tmp_path) -> None:
    dispatcher = Dispatcher(write=lambda *_: None, lanes=100)
    tasks = [task(0, tmp_path, problem="a"), task(1, tmp_path, problem="b")]
    tasks += [task(number, tmp_path, problem="a") for number in range(2, 30)]
    dispatcher.add(tasks)
    for one in tasks:
        dispatcher.built([one])
    path = str(tasks[0].problem.path)
    taken = [dispatcher.take(path)[0].problem.name for _ in range(MOST_BATCHES + 2)]
    assert taken == ["a"] * (MOST_BATCHES + 1) + ["b"]


@pytest.fixture
def disk(monkeypatch) -> dict[str, int]:
    """The bytes that are free, and how often anybody looked."""
    state = {"free": 0, "looks": 0}

    def usage(_folder: object) -> SimpleNamespace:
        state["looks"] += 1
        return SimpleNamespace(free=state["free"])

    monkeypatch.setattr(lanes.shutil, "disk_usage", usage)
    return state


NO_ROOM = [
    (failed(S.BUILD_FAILED, "No space left on device"), "harness_error"),
    (failed(S.IMPORT_FAILED, "OSError: [Errno 28]"), "harness_error"),
    (failed(S.RAISED, "OSError: [Errno 28]"), "harness_error"),
    (failed(S.WRONG_VALUE, "off"), "wrong_value"),
]


@pytest.mark.parametrize(("result", "status"), NO_ROOM)
def test_a_full_disk_is_the_machines_failure(stage, disk, result, status) -> None:
    stage.script = {"s0": [result]}
    events = list(stage.run(many(stage.folder, 2)))
    assert statuses(events) == {"k0": status, "k1": "passed"}
    (found,) = [e.verdict.last for e in events if isinstance(e, Finished) and e.verdict.task.key == "k0"]
    assert found.retryable is (status == "harness_error")
    assert found.outcome.reason.endswith(result.outcome.reason)


def test_a_disk_that_the_solution_filled_itself_is_its_own_failure(stage, disk, monkeypatch) -> None:
    """What its workers wrote goes when they do."""
    monkeypatch.setattr(FakeJudge, "close", lambda _self: disk.update(free=1 << 40))
    stage.script = {"s0": [failed(S.RAISED, "OSError: [Errno 28]")]}
    assert statuses(list(stage.run(many(stage.folder, 1)))) == {"k0": "raised"}
