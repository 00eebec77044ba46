"""Tasks of a sweep, their verdicts, and the events of a sweep."""

from collections.abc import Sequence
from dataclasses import dataclass

from kbench.core.events import Judged, RunOptions, StageEvent
from kbench.core.model import Case, Failed, Passed, ResultRow, Sample, Status
from kbench.engine.case_state import CaseState
from kbench.engine.rows import make_row, provenance_of
from kbench.engine.unit import UnitResult
from kbench.plugins.registry import Entry
from kbench.storage import rows as rowmaker


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One solution of one case of a problem: one verdict from one or more units."""

    key: str
    problem: Entry
    solution: Entry
    case: Case
    beside: tuple[Case, ...] = ()
    """Other cases of the problem that are judged as well: none of them takes the place of this one."""
    options: RunOptions
    claim: float | None = None
    """The speed-up that its author claims."""
    tags: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    """Names of solutions with the same source, which share its verdict."""
    refused: Failed | None = None
    """Why it is refused before it is built."""
    unbuilt: Failed | None = None
    """Why it could not be constructed when it was built, which may be the problem's own fault."""
    built_s: float | None = None
    """Seconds of its build, until a unit has them among its own."""

    @property
    def name(self) -> str:
        """Problem, solution and case."""
        return f"{self.problem.name} · {self.solution.name} · {self.case.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskVerdict:
    """A task and the results of its units, one for each process."""

    task: Task
    results: tuple[UnitResult, ...]
    resumed: bool = False
    """Whether it was read from the journal."""

    @property
    def last(self) -> UnitResult:
        """Result of the last unit, which decides."""
        return self.results[-1]

    @property
    def level(self) -> str | None:
        """The level that it holds, which the first unit tries; None if a later unit failed, or it holds none."""
        decides = self.results[0] if isinstance(self.last.outcome, Passed) else self.last
        return decides.outcome.level

    @property
    def status(self) -> Status:
        """`passed`, or why not."""
        return self.last.status

    @property
    def is_held(self) -> bool:
        """Whether the judge's clock confirms the times of all processes."""
        outcomes = [result.outcome for result in self.results]
        timings = [timing for outcome in outcomes if isinstance(outcome, Passed) for timing in outcome.timings]
        return bool(timings) and all(timing.attestation == "held" for timing in timings)

    @property
    def state(self) -> CaseState:
        """What its processes come to together."""
        return state_of(self.task, self.results)

    def rows(self, run_id: str, started_utc: str) -> list[tuple[ResultRow, Sequence[Sample]]]:
        """Return the rows of a results file, each with its samples."""
        task = self.task
        provenance = provenance_of(task.problem, run_id, started_utc)
        made = [
            make_row(provenance, task.solution, result.case or task.case, process, task.options, result)
            for process, result in enumerate(self.results)
        ]
        outcome = self.state.outcome
        if isinstance(outcome, Passed) and outcome.timings:
            made = [*rowmaker.with_interval(made, outcome.timings, task.options.precision)]
        return [(row, result.samples) for row, result in zip(made, self.results, strict=True)]

    def judged(self, run_id: str = "", started_utc: str = "") -> Judged:
        """Return the verdict as `run` tells it."""
        state = self.state
        if not state.wants_more(self.task.options):
            state.tell_budget(self.task.options)
        rows = tuple(row for row, _ in self.rows(run_id, started_utc))
        return state.judged((self.last.case or self.task.case).name, rows)


def state_of(task: Task, results: Sequence[UnitResult]) -> CaseState:
    """Return the state of a task after these units."""
    state = CaseState(entry=task.solution, case=task.case)
    for result in results:
        state.add(result.outcome)
        for stage, elapsed_s in result.stage_s.items():
            state.stage_s[stage] = state.stage_s.get(stage, 0.0) + elapsed_s
    return state


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Time limits of a unit in seconds, without waiting for the device. Chosen."""

    verify_s: float = 300.0
    time_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlanned:
    """The tasks are known, and the verdicts that the journal has already."""

    run: str
    tasks: int
    resumed: int
    devices: tuple[str, ...]
    lanes: int
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """One verdict is on the disk."""

    verdict: TaskVerdict
    elapsed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """The state of a device has changed."""

    device: str
    state: str
    """`ready`, `suspect`, `back in service` or `quarantined`."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """A unit failed because of kbench and is tried again."""

    task: Task
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The sweep is over."""

    csv_path: str | None
    reason: str = ""
    elapsed_s: float = 0.0


SweepEvent = SweepPlanned | StageEvent | Finished | DeviceState | Retried | Ended
