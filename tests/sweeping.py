"""Tasks, verdicts and a lane without processes, for tests of sweeps."""

import threading
from collections.abc import Sequence
from pathlib import Path

from fakes import CORRECT, ENVIRONMENT, timing

from kbench.catalog.registry import Entry
from kbench.catalog.shapes import Derived
from kbench.core.events import RunOptions, Waiting
from kbench.core.levels import Level
from kbench.core.model import Case, Failed, Finding, Outcome, Passed, Status
from kbench.devices.selection import cpu
from kbench.engine.guard import Guard
from kbench.engine.task import Task, TaskVerdict
from kbench.engine.unit import TimeLeft, Unit, UnitResult

OPTIONS = RunOptions(device="cpu", processes=1, max_processes=1, verify_only=True, wait_for_device=False)
PROBLEM = "class Model: ...\ndef get_inputs(): return []\ndef get_init_inputs(): return []\n"


def entry(path: Path, **changes: object) -> Entry:
    values = {"name": path.stem, "summary": "", "origin": "path", "devices": ("cpu", "cuda")}
    return Entry(path=path, **{**values, **changes})


def task(number: int, folder: Path = Path("/nowhere"), *, problem: str = "p", **changes: object) -> Task:
    """The task of a built-in solution, whose problem is there if the folder is."""
    path = folder / f"{problem}.py"
    if folder.is_dir():
        path.write_text(PROBLEM)
    told = {
        "key": f"k{number}",
        "problem": entry(path),
        "solution": entry(path, name=f"s{number}", builtin="eager"),
        "case": Case(name="default"),
        "options": OPTIONS,
    }
    return Task(**{**told, **changes})


def passed(
    process: int = 0, *, timed: bool = True, findings: tuple[Finding, ...] = (), **changes: object
) -> UnitResult:
    timings = (timing(process),) if timed else ()
    outcome = Passed(correctness=CORRECT, timings=timings, level=Level.MODULE, findings=findings)
    told = {"outcome": outcome, "stage_s": {"verify": 1.0, "time": 2.0}, "environment": ENVIRONMENT}
    return UnitResult(**{**told, **changes})


def failed(status: Status, reason: str = "why", **changes: object) -> UnitResult:
    return UnitResult(outcome=Failed(status=status, reason=reason), stage_s={"verify": 0.5}, **changes)


def verdict(number: int, *results: UnitResult, **changes: object) -> TaskVerdict:
    return TaskVerdict(task=task(number), results=results or (passed(),), **changes)


class FakeJudge:
    """Judges by a script: for each solution's name, what its attempts come to, the last one again and again."""

    def __init__(self, script: dict[str, list[Status | UnitResult]], guard: Guard):
        self.script = script
        self.guard = guard
        self.judged: list[tuple[str, int]] = []
        self.turned: list[str] = []
        self.problem_path = ""
        self.interrupted = threading.Event()
        self.hangs: set[str] = set()
        self.waits_for: list[str] = []
        """Holders of the device that each unit waits for."""

    def turn_to(self, problem: Entry, solutions: Sequence[Entry], options: RunOptions) -> None:
        self.turned.append(problem.name)
        self.problem_path = str(problem.path)

    problem_s = 0.0

    def start(self, expected: Sequence[Entry]) -> None:
        """Nothing has to start."""

    def derive(self, expected: Sequence[Entry], case: Case) -> Derived:
        return Derived(cases=[{"n": 5 + len(case.overrides)}])

    def explain(self, failed: Failed, solution: Entry, case: Case) -> Failed:
        return failed

    def why_not(self, case: Case, expected: Sequence[Entry]) -> Failed | None:
        return None

    def evaluate(self, unit: Unit, following: Sequence[Entry] = (), left: TimeLeft | None = None) -> UnitResult:
        report = self.guard.report
        name = unit.solution.name
        self.judged.append((name, unit.process))
        for holder in self.waits_for:
            report(Waiting(device=cpu().name, holder=holder))
            report(unit.started("wait"))
            report(unit.ended("wait", 0.0))
        report(unit.started("verify"))
        if name in self.hangs:
            self.interrupted.wait(30)
            self.interrupted.clear()
            return failed(Status.HARNESS_ERROR, "the judge is gone")
        steps = self.script.get(name, [Status.PASSED])
        found = steps.pop(0) if len(steps) > 1 else steps[0]
        report(unit.ended("verify", 0.1))
        result = found if isinstance(found, UnitResult) else self._result(found, unit)
        outcome: Outcome = result.outcome
        if isinstance(outcome, Failed):
            self.guard.look(outcome.status)
        return result

    def _result(self, status: Status, unit: Unit) -> UnitResult:
        return passed(unit.process, timed=False) if status is Status.PASSED else failed(status)

    def interrupt(self) -> None:
        self.interrupted.set()

    def close(self) -> None:
        pass
