"""A unit of judging, and its result."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kbench.build import manifest
from kbench.catalog.registry import Entry
from kbench.catalog.shapes import Derived
from kbench.core.events import REFERENCE, REFERENCE_STAGES, RunOptions, StageEvent, StageFinished, StageStarted
from kbench.core.model import Case, Cost, Environment, Failed, Outcome, Passed, Peaks, Sample, Status
from kbench.core.timed import timed_of
from kbench.core.verdict import NOT_EVALUATED
from kbench.devices.selection import DeviceChoice
from kbench.process.channel import encode_constants

OPTIONS_NOT_HASHED = ("device", "cases", "overrides", "wait_for_device", "results_dir", "save", "name")
"""Options that change no verdict: places of files, and those that the case and the device determine."""
UNIT_TIMEOUT_S = 600.0
"""Chosen. Seconds for a unit of a sweep or a pool, unless a limit is set for all units of a solution."""
RETRYABLE = frozenset({Status.HARNESS_ERROR, Status.NOT_VERIFIED})
"""Statuses that are kbench's or the machine's fault: another try, or another machine, may give a verdict."""


@dataclass(slots=True)
class TimeLeft:
    """Seconds that a solution has left, of its limit for all its units together, or for one."""

    seconds: float

    def spend(self, stage_s: Mapping[str, float], *, of_problem_s: float) -> None:
        """Take away what the stages of a unit took, less what the problem took of them or who had the device."""
        solution_s = sum(took_s for stage, took_s in stage_s.items() if stage not in {*REFERENCE_STAGES, "wait"})
        self.seconds -= max(0.0, solution_s - of_problem_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One process (replicate) of one solution and case, with the options for judging it."""

    problem: Entry
    solution: Entry
    case: Case
    process: int
    options: RunOptions
    derived: Derived = field(default_factory=Derived)
    """Shapes beside the problem's cases at which the first process verifies the solution."""
    follows: bool = False
    """For a process that only times: whether an earlier one found that parameters may change after construction."""
    precision: float | None = None
    """Target precision of this process, given the earlier ones; None: that of the options."""

    def started(self, stage: str) -> StageStarted:
        """Return the start of a stage as an event of a run."""
        return StageStarted(stage=stage, solution=self._whose(stage), case=self.case.name, process=self.process)

    def ended(self, stage: str, elapsed_s: float, *, ok: bool = True) -> StageFinished:
        """Return the end of a stage as an event of a run."""
        solution, case, process = self._whose(stage), self.case.name, self.process
        return StageFinished(stage=stage, solution=solution, case=case, process=process, ok=ok, elapsed_s=elapsed_s)

    def _whose(self, stage: str) -> str:
        return REFERENCE if stage in REFERENCE_STAGES else self.solution.name


class Stages:
    """The seconds of a unit's stages, which it reports as they begin and end."""

    def __init__(self, unit: Unit, report: Callable[[StageEvent], None], seconds: Mapping[str, float] | None = None):
        self.unit, self.report = unit, report
        self.seconds = dict(seconds or {})

    def changed(self, stage: str, ok: bool, elapsed_s: float | None) -> None:
        """Report that a stage begins, or that it took some seconds."""
        if elapsed_s is None:
            self.report(self.unit.started(stage))
        else:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + elapsed_s
            self.report(self.unit.ended(stage, elapsed_s, ok=ok))


class OutcomeProperties:
    """Properties that follow from the status of an outcome."""

    __slots__ = ()
    outcome: Outcome

    @property
    def status(self) -> Status:
        """`passed`, or why not."""
        return self.outcome.status if isinstance(self.outcome, Failed) else Status.PASSED

    @property
    def retryable(self) -> bool:
        """A failure is kbench's or the machine's fault, so that another try makes sense."""
        return self.status in RETRYABLE

    @property
    def is_verdict(self) -> bool:
        """The status is a verdict on the solution; other statuses must not count against it."""
        return self.status not in NOT_EVALUATED


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitResult(OutcomeProperties):
    """The result of a unit: enough to write its row on any machine."""

    outcome: Outcome
    stage_s: dict[str, float] = field(default_factory=dict)
    """Seconds by stage; `wait` is the time until the device was free."""
    environment: Environment | None = None
    cost: Cost | None = None
    peaks: Peaks | None = None
    tensors: str = ""
    weights: str = ""
    isolation: str = ""
    source_sha256: str = ""
    """Identity of the solution: of its file, and of all that was read with it."""
    problem_sha256: str = ""
    """Identity of the problem, likewise."""
    attempts: int = 1
    """Number of attempts; earlier ones failed because of kbench."""

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The timed samples; none of a failure."""
        return self.outcome.timings[0].samples if isinstance(self.outcome, Passed) and self.outcome.timings else ()


def key_of(case: Case) -> str:
    """Return the constants and passes of a case as a key."""
    return f"{timed_of(case.name)} {sorted(case.overrides.items())!r}"


def task_key(unit: Unit, device: DeviceChoice) -> str:
    """Return a hash of the files and options of a verdict, the same for every process. Raises OSError for a lost file.

    The identities of the result cover all that the files read; a resumed run compares (`is_of`).
    """
    files = unit.problem.path, unit.solution.path
    hashes = [f"{manifest.file_hash(path)} {path.absolute().parent}" for path in files]
    case = {"name": unit.case.name, "overrides": encode_constants(unit.case.overrides)}
    options = {
        name: value for name, value in dataclasses.asdict(unit.options).items() if name not in OPTIONS_NOT_HASHED
    }
    parts = (*hashes, unit.solution.variant, case, options, device.key, device.name)
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def is_of(result: UnitResult, problem: Entry, solution: Entry) -> bool:
    """Return whether all that was read with these files for a recorded result is as it was."""
    recorded = ((result.problem_sha256, problem.path, ""), (result.source_sha256, solution.path, solution.variant))
    return all(not sha256 or manifest.is_identity(sha256, path, variant) for sha256, path, variant in recorded)
