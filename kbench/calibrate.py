"""`calibrate`: time the reference against itself on this device. The difference is noise; the gate promises no less."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from kbench.core.errors import MachineError, ResultsError
from kbench.core.model import Timing
from kbench.core.stats import arm_times_ns, detectable_effect, pair_log_ratios, process_estimate
from kbench.storage import csvfile
from kbench.storage.json_values import reader_of

_STRICT = {"extra": "forbid", "strict": True}

SCHEMA = 1
DEFAULT_PROCESSES = 10

SIZE_CLASSES = (("tiny", 20e3), ("short", 200e3), ("medium", 2e6), ("long", math.inf))
"""Names and upper ends, in nanoseconds per call. Calls below 20 µs are timed in batches."""
ELSEWHERE = "set XDG_STATE_HOME to another folder"
AGAIN = "`kbench calibrate` measures it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainstItself:
    """One subject's A/A timing."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT

    problem: str
    case: str
    time_ns: float
    pairs: int
    within: float
    """Robust sd of a pair's log ratio inside a process."""
    estimates: tuple[float, ...]
    """Estimate of each process; 0 without noise."""

    @property
    def between(self) -> float:
        """Sd of the processes' estimates."""
        return float(np.std(self.estimates, ddof=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSpread:
    """Noise of one size class, pooled over its subjects; sds in log units (0.001 is 0.1 %)."""

    name: str
    subjects: int
    within: float
    between: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Noise of one device."""

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

    def detectable(self, time_ns: float, processes: int) -> float | None:
        """Smallest slow-down (a share) that runs of `processes` processes detect 99 times in 100; None if unknown."""
        name = size_class(time_ns)
        known = next((known for known in self.classes if known.name == name), None)
        return detectable_effect(known.between, processes) if known is not None and processes > 1 else None


def calibration_of(name: str, uuid: str, driver: str, subjects: Sequence[AgainstItself]) -> Calibration:
    """Return the calibration of a device from what was measured on it now."""
    return Calibration(
        schema=SCHEMA,
        gpu_name=name,
        gpu_uuid=uuid,
        driver=driver,
        measured_utc=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        subjects=tuple(subjects),
    )


def analyse(problem: str, case: str, timings: Sequence[Timing]) -> AgainstItself:
    """Turn A/A timings, one per process, into noise. Raises MachineError for fewer than two processes with a pair."""
    ratios = [(timing, found) for timing in timings if (found := pair_log_ratios(timing.samples))]
    if len(ratios) < 2:
        raise MachineError(
            f"{problem}, case {case}: only {len(ratios)} of {len(timings)} processes have pairs of times",
            hint="try again on a quiet device; `kbench doctor` looks for what disturbs it",
        )
    times = [np.median(arm_times_ns(timing.samples, "reference")) for timing, _ in ratios]
    deviations = [np.median(np.abs(np.subtract(found, np.median(found)))) for _, found in ratios]
    return AgainstItself(
        problem=problem,
        case=case,
        time_ns=float(np.median(times)),
        pairs=min(len(found) for _, found in ratios),
        within=1.4826 * float(np.median(deviations)),
        estimates=tuple(process_estimate(timing) for timing, _ in ratios),
    )


def size_class(time_ns: float) -> str:
    """Name the size class of a call."""
    return next(name for name, below_ns in SIZE_CLASSES if time_ns < below_ns)


def default_directory() -> Path:
    """Folder of the calibrations of this machine's devices."""
    import platformdirs

    return platformdirs.user_state_path("kbench") / "calibration"


def save(calibration: Calibration, directory: Path | None = None) -> Path:
    """Write a calibration under its GPU's UUID, replacing an earlier one. Raises MachineError."""
    path = _path(calibration.gpu_uuid, directory)
    csvfile.make_folder(path, ELSEWHERE)
    csvfile.replace_file(path, json.dumps(asdict(calibration), indent=1) + "\n", ELSEWHERE)
    return path


def load(gpu_uuid: str, directory: Path | None = None) -> Calibration | None:
    """Read the calibration of a device; None if there is none. Raises ResultsError for any other file."""
    from pydantic import ValidationError

    path = _path(gpu_uuid, directory)
    if not path.is_file():
        return None
    try:
        calibration: Calibration = reader_of(Calibration).validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ResultsError(f"{path}: {where}: {first['msg']}", AGAIN) from error
    if calibration.schema != SCHEMA or calibration.gpu_uuid != gpu_uuid:
        raise ResultsError(f"{path} is of another device or version", AGAIN)
    return calibration


def _path(gpu_uuid: str, directory: Path | None) -> Path:
    safe = re.sub(r"[^A-Za-z0-9_-]", "-", gpu_uuid)[:200]
    return (directory or default_directory()) / f"{safe or 'unnamed'}.json"


def _pool(name: str, subjects: Sequence[AgainstItself]) -> ClassSpread:
    """Pool variances by degrees of freedom: each subject has its own mean."""
    freedom = sum(len(subject.estimates) - 1 for subject in subjects)
    squares = sum((len(subject.estimates) - 1) * subject.between**2 for subject in subjects)
    return ClassSpread(
        name=name,
        subjects=len(subjects),
        within=float(np.median([subject.within for subject in subjects])),
        between=math.sqrt(squares / freedom),
    )
