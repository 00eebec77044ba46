"""Options of a run, and the events that it yields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from kbench.core.forecast import Forecast
from kbench.core.levels import Level
from kbench.core.model import Case, Environment, Outcome, ResultRow
from kbench.core.ranges import NO_OTHER_FIELD, OpenShare, Positive, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringOptions:
    """Options whose defaults `[tool.kbench.run]` can set under the same names."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_FIELD

    device: str = "auto"
    """`auto`, `cpu`, `cuda` or `cuda:1`."""
    processes: Positive = 3
    """Least number of processes; more are added until `precision` is met or `max_processes` is reached."""
    max_processes: Positive = 10
    """Largest number of processes."""
    pairs: Positive = 30
    """Timed pairs (reference, candidate) per process at most; fewer if they agree better than needed."""
    precision: OpenShare = 0.003
    """Stop when the half-width of the speed-up's 95 % interval is below this share."""
    budget_s: Seconds | None = None
    """Seconds to measure each solution and case; absent: 20."""
    mode: Literal["cold", "warm", "graph"] = "cold"
    """Cache state before each timed call, or launch by CUDA graph."""
    import_timeout_s: Seconds = 60.0
    """Seconds to import a solution or a problem; five times as long to construct the problem's model."""
    build_timeout_s: Seconds = 300.0
    """Seconds to build a solution."""
    call_timeout_s: Seconds | None = None
    """Seconds for one call; absent: max(10 s, 50 times the reference)."""
    timeout_s: Seconds | None = None
    """Seconds for one solution in total; absent: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(MeasuringOptions):
    """All options of `kbench run` and `kbench verify`, each declared once, here or in the base class.

    Flags and settings fill this record (`engine.options.options_from`); judges get it unchanged (`process.options`).
    """

    cases: tuple[str, ...] = ()
    """Globs over case names; empty: the default case for the device."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """`--set NAME=VALUE`: module constants of the problem."""
    verify_only: bool = False
    """Verify, and time nothing."""
    trusted: bool = False
    """Trust the solution: run it with a lighter sandbox."""
    require_sandbox: bool = False
    """Refuse to run where no sandbox works."""
    level: Level = Level.MODULE
    """Level that a solution must hold; with `task`, higher levels are not tried."""
    accept: tuple[str, ...] = ()
    """Codes of properties that a solution may lack."""
    backward: bool = False
    """Judge and time forward + backward as well, as a case of its own."""
    batch_invariant: bool = False
    """Require that a row has the same bits in every batch."""
    require_custom: bool = False
    """Fail a solution that launches no kernel of its own."""
    sanitize: bool | None = None
    """Run memcheck of compute-sanitizer first, on a small case; absent: only after an illegal access."""
    allow_tf32: bool = False
    """Allow TF32 on both sides."""
    eval_mode: bool = False
    """Run both sides in eval mode. Otherwise in training mode, unless the reference is random there."""
    wait_for_device: bool = True
    """Queue for the device. False if times do not matter: other processes may compute on the device meanwhile, and a
    judge on a CPU uses a quarter of the processors."""
    results_dir: Path = Path("results")
    """Folder to write the results to."""
    save: bool = True
    """Write the results."""
    name: str | None = None
    """Name of the run; absent: `<UTC time>-<problem>-<solutions>`."""


REFERENCE = "reference"
REFERENCE_STAGES = ("start", "shapes", "open")
"""Stages of the judge itself, reported with `REFERENCE` as their solution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The work is known: which solutions on which cases, where."""

    problem: str
    solutions: tuple[str, ...]
    cases: tuple[Case, ...]
    device: str
    processes: int
    """Least number of processes of each solution and case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeCases:
    """Warning that some cases are large, before anything is allocated."""

    cases: tuple[Forecast, ...]
    small: Forecast | None
    """A case that is not large."""
    memory_bytes: int | None
    """Memory of the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Another process holds the device; this one queues."""

    device: str
    holder: str

    @property
    def who(self) -> str:
        """The holder, without how long it has held the device."""
        return self.holder.partition(", for ")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStarted:
    """A stage (`build`, `load`, `verify`, `time`) of one solution and case begins, or one of REFERENCE_STAGES."""

    stage: str
    case: str
    solution: str = REFERENCE
    process: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFinished:
    """A stage ended, after `elapsed_s`; `detail` is one line for the terminal."""

    stage: str
    case: str
    elapsed_s: float
    solution: str = REFERENCE
    process: int | None = None
    ok: bool = True
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimated:
    """A process of one (solution, case) was timed, and another one follows."""

    solution: str
    case: str
    speedup: float
    half_width: float | None
    """Half-width of the speed-up's 95 % interval over processes, as a share; None for one process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One (solution, case) is finished: its outcome, the rows written, how long its stages took."""

    solution: str
    case: str
    outcome: Outcome
    rows: tuple[ResultRow, ...] = field(repr=False)
    stage_s: dict[str, float]
    weight: float = 1.0
    """Number of times that the case counts in means over several cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The file of a run is open, or with its `environment` complete; `csv_path` is None with `--no-save`."""

    csv_path: str | None
    environment: Environment | None


StageEvent = Waiting | StageStarted | StageFinished
Event = Planned | LargeCases | Waiting | StageStarted | StageFinished | Estimated | Judged | Saved
