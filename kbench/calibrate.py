"""`calibrate`: the reference against itself on this device. What differs is noise, and bounds the promises.

Per size class (a launch of microseconds is noisier than a pass over gigabytes) the spread of pairs within a
process and of estimates between processes is kept, by GPU UUID. From the second follows the smallest change
that a run detects; the gate refuses to promise less.
"""

import json
import math
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from kbench.core.errors import MachineError, ResultsError
from kbench.core.model import Environment, Timing
from kbench.core.stats import detectable_effect, pair_log_ratios, process_estimate, summarise_arm
from kbench.storage import csvfile

_STRICT = {"extra": "forbid", "strict": True}

SCHEMA = 1
DEFAULT_PROCESSES = 10

SIZE_CLASSES = (("tiny", 20e3), ("short", 200e3), ("medium", 2e6), ("long", math.inf))
"""Names and upper ends, in nanoseconds per call. Below 20 us calls are timed in batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is timed against itself."""

    problem: str
    case: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainstItself:
    """One subject's A/A timing: the estimate of each process, which would be 0 without noise."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT

    problem: str
    case: str
    time_ns: float
    pairs: int
    within: float
    """Robust sd of a pair's log ratio inside a process."""
    estimates: tuple[float, ...]

    @property
    def between(self) -> float:
        """Sd of the processes' estimates."""
        return float(np.std(self.estimates, ddof=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSpread:
    """Noise of one size class, pooled over its subjects; sds in log units (0.001 is 0.1 %)."""

    name: str
    subjects: int
    processes: int
    within: float
    between: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What is known about the noise of one device."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT

    schema: int
    gpu_name: str
    gpu_uuid: str
    driver: str
    measured_utc: str
    subjects: tuple[AgainstItself, ...]

    @property
    def classes(self) -> tuple[ClassSpread, ...]:
        """The size classes that were measured."""
        by_name = {name: [s for s in self.subjects if size_class(s.time_ns) == name] for name, _ in SIZE_CLASSES}
        return tuple(_pool(name, subjects) for name, subjects in by_name.items() if subjects)

    def spread(self, time_ns: float) -> ClassSpread | None:
        """Noise of calls of this length; None if no subject of that class was measured."""
        name = size_class(time_ns)
        return next((known for known in self.classes if known.name == name), None)

    def detectable(self, time_ns: float, processes: int) -> float | None:
        """Smallest slow-down (a share) that two runs of `processes` processes each detect 99 times in 100.

        None for a size class that was not measured, or a single process.
        """
        known = self.spread(time_ns)
        if known is None or processes < 2:
            return None
        return detectable_effect(known.between, processes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """All are done, and the calibration is saved."""

    calibration: Calibration
    path: Path


CalibrationEvent = Subject | AgainstItself | Calibrated
"""The next subject, its result, and at the end the calibration."""

Measure = Callable[[Subject, int], Iterable[Timing]]
"""Times a subject's reference against itself in the given number of fresh processes, with one Timing each."""


def calibrate(
    subjects: Sequence[Subject],
    measure: Measure,
    environment: Environment,
    *,
    processes: int = DEFAULT_PROCESSES,
    directory: Path | None = None,
) -> Generator[CalibrationEvent]:
    """Time every subject against itself, and save what comes out.

    Raises MachineError: a subject has fewer than two processes with usable pairs, or the file cannot be written.
    """
    results = []
    for subject in subjects:
        yield subject
        results.append(analyse(subject, tuple(measure(subject, processes))))
        yield results[-1]
    calibration = Calibration(
        schema=SCHEMA,
        gpu_name=environment.gpu_name,
        gpu_uuid=environment.gpu_uuid,
        driver=environment.driver,
        measured_utc=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        subjects=tuple(results),
    )
    yield Calibrated(calibration=calibration, path=save(calibration, directory))


def analyse(subject: Subject, timings: Sequence[Timing]) -> AgainstItself:
    """Turn the A/A timings of one subject, one per process, into its noise.

    Raises MachineError for fewer than two processes with a pair.
    """
    ratios = [(timing, found) for timing in timings if (found := pair_log_ratios(timing.samples))]
    if len(ratios) < 2:
        raise MachineError(
            f"{subject.problem}, case {subject.case}: only {len(ratios)} of {len(timings)} processes gave pairs",
            hint="try again on a quiet device; `kbench doctor` looks for what disturbs it",
        )
    times = [summarise_arm(timing.samples, "reference").median_ns for timing, _ in ratios]
    return AgainstItself(
        problem=subject.problem,
        case=subject.case,
        time_ns=float(np.median(times)),
        pairs=min(len(found) for _, found in ratios),
        within=float(np.median([_robust_sd(found) for _, found in ratios])),
        estimates=tuple(process_estimate(timing) for timing, _ in ratios),
    )


def size_class(time_ns: float) -> str:
    """Name the size class of a call."""
    return next(name for name, below_ns in SIZE_CLASSES if time_ns < below_ns)


# --- storage -----------------------------------------------------------------------


def default_directory() -> Path:
    """Folder of the calibrations of this machine's devices."""
    import platformdirs

    return platformdirs.user_state_path("kbench") / "calibration"


ELSEWHERE = "set XDG_STATE_HOME to another folder"


def save(calibration: Calibration, directory: Path | None = None) -> Path:
    """Write a calibration under its GPU's UUID, replacing an earlier one."""
    path = _path(calibration.gpu_uuid, directory)
    csvfile.make_folder(path, ELSEWHERE)
    csvfile.replace_file(path, json.dumps(asdict(calibration), indent=1) + "\n", ELSEWHERE)
    return path


def load(gpu_uuid: str, directory: Path | None = None) -> Calibration | None:
    """Read the calibration of a device; None if there is none.

    Raises ResultsError for a file that does not hold one.
    """
    from pydantic import TypeAdapter, ValidationError

    path = _path(gpu_uuid, directory)
    if not path.is_file():
        return None
    try:
        calibration = TypeAdapter(Calibration).validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ResultsError(f"{path}: {where}: {first['msg']}", hint="`kbench calibrate` measures it again") from error
    if calibration.schema != SCHEMA or calibration.gpu_uuid != gpu_uuid:
        raise ResultsError(f"{path} is of another device or version", hint="`kbench calibrate` measures it again")
    return calibration


def _path(gpu_uuid: str, directory: Path | None) -> Path:
    safe = re.sub(r"[^A-Za-z0-9_-]", "-", gpu_uuid)[:200]
    return (directory or default_directory()) / f"{safe or 'unnamed'}.json"


def _pool(name: str, subjects: Sequence[AgainstItself]) -> ClassSpread:
    """Pool variances by degrees of freedom: each subject has its own mean."""
    freedom = [len(subject.estimates) - 1 for subject in subjects]
    squares = sum(df * subject.between**2 for df, subject in zip(freedom, subjects, strict=True))
    return ClassSpread(
        name=name,
        subjects=len(subjects),
        processes=sum(len(subject.estimates) for subject in subjects),
        within=float(np.median([subject.within for subject in subjects])),
        between=math.sqrt(squares / sum(freedom)),
    )


def _robust_sd(values: Sequence[float]) -> float:
    data = np.asarray(values, dtype=np.float64)
    return 1.4826 * float(np.median(np.abs(data - np.median(data))))
