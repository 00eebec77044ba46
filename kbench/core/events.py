"""What a run is told, and what it tells while it goes: options in, events out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbench.core.levels import Level
from kbench.core.model import Case, Environment, Outcome, Peaks, ResultRow


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """When to give up on a candidate, in seconds. Each expiry has its own status."""

    import_s: float = 60.0
    build_s: float = 300.0
    call_s: float | None = None
    """None: max(10 s, 50 times the reference)."""
    total_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringOptions:
    """The options that `[tool.kbench.run]` has defaults for under the same name."""

    device: str = "auto"
    """`auto`, `cpu`, `cuda` or `cuda:1`."""
    processes: int = 3
    """Replicates to begin with; more are added until `precision` is met or `max_processes` reached."""
    max_processes: int = 10
    pairs: int = 30
    """Timed (reference, candidate) pairs per process at most; fewer where they agree far better than needed."""
    precision: float = 0.003
    """Stop once the half-width of the 95 % interval of the speed-up is below this share."""
    budget_s: float | None = None
    """Seconds of measuring for each solution and case; None: what suits the device (`core.budget`)."""
    mode: str = "cold"
    """`cold`, `warm` or `graph`."""
    isolation: int | None = None
    """Refuse to run below this rung of the sandbox ladder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(MeasuringOptions):
    """Everything that `kbench run` and `kbench verify` can be told: each option is declared here or above.

    Flags and settings fill it (`run.plan.options_from`), and judges have it as it is (`wire.options`).
    """

    cases: tuple[str, ...] = ()
    """Globs over case names; empty: the case that suits the device."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """`--set NAME=VALUE`: module constants of the problem."""
    verify_only: bool = False
    lock_clocks_mhz: int | None = None
    """Lock the SM clock there while this run measures; None leaves the clocks alone."""
    limits: TimeLimits = TimeLimits()
    trusted: bool = False
    level: Level = Level.MODULE
    """What a solution must be right for; with `task` nothing beyond it is tried."""
    accept: tuple[str, ...] = ()
    """Keys of `levels.PROPERTIES` that it may lack all the same."""
    backward: bool = False
    require_custom: bool = False
    sanitize: bool | None = None
    """Run compute-sanitizer first, on a small case; None: its memcheck after an illegal access, to name the line."""
    allow_tf32: bool = False
    eval_mode: bool = False
    """Run both sides in eval mode; else in training mode, unless the reference is random there."""
    crosscheck: str | None = None
    """`cupti`: also take kernel times from the profiler."""
    wait_for_device: bool = True
    """False where times do not matter: nobody queues for the device, so others may compute on it meanwhile."""
    results_dir: Path = Path("results")
    save: bool = True
    name: str | None = None
    """Stem of the CSV; None: `<UTC time>-<problem>-<solutions>`."""


REFERENCE = "reference"
OF_THE_REFERENCE = ("shapes", "open")
"""Stages of the judge's own side, and what they call it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The work is known: which solutions on which cases, where."""

    problem: str
    solutions: tuple[str, ...]
    cases: tuple[Case, ...]
    device: str
    processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Another process holds the device; this one queues."""

    device: str
    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStarted:
    """A stage (`build`, `load`, `verify`, `time`) of one solution and case begins.

    Or one of the judge's own side, OF_THE_REFERENCE, whose `solution` is REFERENCE.
    """

    stage: str
    solution: str
    case: str
    process: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFinished:
    """A stage ended, after `elapsed_s`; `detail` is one line for the terminal."""

    stage: str
    solution: str
    case: str
    process: int | None
    ok: bool
    elapsed_s: float
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimated:
    """A process of one (solution, case) was timed, and another one follows."""

    solution: str
    case: str
    processes: int
    """Timed so far."""
    at_most: int
    speedup: float
    half_width: float | None
    """Of the speed-up's interval over processes at 95 %, as a share; None for one process."""
    left_s: float | None
    """Seconds of measuring that the budget leaves; None without a budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One (solution, case) is finished: its outcome, the rows written, how long its stages took."""

    solution: str
    case: str
    outcome: Outcome
    rows: tuple[ResultRow, ...]
    stage_s: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The run is over; `csv_path` is None with `--no-save`."""

    csv_path: str | None
    environment: Environment | None
    peaks: Peaks | None = None
    """Of the device, where they are known."""


Event = Planned | Waiting | StageStarted | StageFinished | Estimated | Judged | Saved
