"""What is asked of a judge at a time, and what comes of it."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from kbench.build.sources import source_sha256
from kbench.core.events import RunOptions
from kbench.core.levels import Level
from kbench.core.model import Case, Cost, Environment, Failed, Outcome, Passed, Peaks, Status
from kbench.devices.selection import DeviceChoice
from kbench.plugins.registry import Entry
from kbench.plugins.shapes import Derived
from kbench.wire.channel import encode_constants

OF_NO_VERDICT = ("device", "cases", "overrides", "wait_for_device", "results_dir", "save", "name")
"""Options that change no verdict: where files go, and what a case and a device say themselves."""
RETRYABLE = frozenset({Status.HARNESS_ERROR, Status.NOT_VERIFIED})
"""Statuses that are kbench's or the machine's fault: another try, or another machine, may give a verdict."""
NO_VERDICT = RETRYABLE | {Status.SKIPPED, Status.REFERENCE_FAILED}
"""Statuses that say nothing about the solution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One process (replicate) of one solution of one case, judged as the options say."""

    problem: Entry
    solution: Entry
    case: Case
    process: int
    options: RunOptions
    derived: Derived = field(default_factory=Derived)
    """Shapes beside the problem's cases that the first process verifies the solution at."""
    follows: bool = False
    """Where the process does not verify: whether an earlier one found that parameters may change after construction."""

    precision: float | None = None
    """How finely this process is measured, given those before it; None: as the options say."""

    @property
    def level(self) -> Level:
        """The level that is required."""
        return self.options.level


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitResult:
    """What came of a unit: enough to write its row, on whichever machine it was judged."""

    outcome: Outcome
    stage_s: dict[str, float] = field(default_factory=dict)
    """Seconds by stage; `wait` is for a device that others use."""
    environment: Environment | None = None
    cost: Cost | None = None
    peaks: Peaks | None = None
    weights: str = ""
    isolation: str = ""
    eval_mode: bool = False
    case: Case | None = None
    """The one that was judged, where the one that was asked for does not fit the device."""
    attempts: int = 1
    """How often it was tried; what failed before was the harness's fault."""

    @property
    def status(self) -> Status:
        """`passed`, or why not."""
        return self.outcome.status if isinstance(self.outcome, Failed) else Status.PASSED

    @property
    def retryable(self) -> bool:
        """Whether a failure is kbench's or the machine's fault, so that another try makes sense."""
        return self.status in RETRYABLE

    @property
    def is_verdict(self) -> bool:
        """Whether it says anything of the solution; what does not must never be held against it."""
        return self.status not in NO_VERDICT

    @property
    def is_timed(self) -> bool:
        """Whether it holds a time."""
        return isinstance(self.outcome, Passed) and bool(self.outcome.timings)


def task_key(unit: Unit, device: DeviceChoice) -> str:
    """Return what a verdict depends on, as a hash: both sources, case, level, options and the device's model.

    Units that differ in their process alone have one key. Raises OSError where a source cannot be read.
    """
    hashes = source_sha256(unit.problem.path), source_sha256(unit.solution.path, unit.solution.variant)
    case = {"name": unit.case.name, "overrides": encode_constants(unit.case.overrides)}
    parts = (*hashes, unit.solution.variant, case, told_options(unit.options), device.key, device.name)
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def told_options(options: RunOptions) -> dict[str, Any]:
    """Return the options that a verdict depends on."""
    return {name: value for name, value in dataclasses.asdict(options).items() if name not in OF_NO_VERDICT}
