"""The records that flow from plan to report. Frozen, keyword-only; units are in the names; absent is None."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from kbench.core.diagnosis import Diagnosis
from kbench.core.levels import Level

SCHEMA_VERSION = 4
"""Version of the results files. 1: first release. 2: `attested_half_width_ns`, `wall_ns`, `ref_wall_ns`; on a GPU times
are of rounds behind the judge's gate. 3: `level`, `lacks`, `required_level`, `accepted`."""
SINCE = {
    2: ("attested_half_width_ns", "wall_ns", "ref_wall_ns"),
    3: ("level", "lacks", "required_level", "accepted"),
    4: ("problem_path", "solution_path", "entry"),
}
"""Fields of a row that earlier versions lack, by the version that brought them."""


class Status(StrEnum):
    """How the evaluation of one (problem, solution, case) ended."""

    PASSED = "passed"
    BUILD_FAILED = "build_failed"
    BUILD_TIMEOUT = "build_timeout"
    IMPORT_FAILED = "import_failed"
    IMPORT_TIMEOUT = "import_timeout"
    INIT_FAILED = "init_failed"
    RAISED = "raised"
    WRONG_VALUE = "wrong_value"
    WRONG_SHAPE = "wrong_shape"
    WRONG_DTYPE = "wrong_dtype"
    WRONG_DEVICE = "wrong_device"
    WRONG_STRUCTURE = "wrong_structure"
    WRONG_TYPE = "wrong_type"
    WRONG_GRADIENT = "wrong_gradient"
    UNWRITTEN_OUTPUT = "unwritten_output"
    NONDETERMINISTIC = "nondeterministic"
    INPUT_MUTATED = "input_mutated"
    PARAMETER_MUTATED = "parameter_mutated"
    OUTPUT_ALIASED = "output_aliased"
    TAMPERED = "tampered"
    BELOW_LEVEL = "below_level"
    FRAGILE = "fragile"
    LIBRARY_ONLY = "library_only"
    LAUNCH_FAILED = "launch_failed"
    ILLEGAL_ACCESS = "illegal_access"
    DATA_RACE = "data_race"
    CRASHED = "crashed"
    EXITED = "exited"
    CALL_TIMEOUT = "call_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    OUT_OF_MEMORY = "out_of_memory"
    PROTOCOL_ERROR = "protocol_error"
    TIMING_UNATTESTED = "timing_unattested"
    REFERENCE_FAILED = "reference_failed"
    NOT_VERIFIED = "not_verified"
    SKIPPED = "skipped"
    HARNESS_ERROR = "harness_error"


class Time(StrEnum):
    """Which of the two times of a call a comparison holds."""

    DEVICE = "device"
    WALL = "wall"


class FindingKind(StrEnum):
    """Why a finding matters: one of integrity is always fatal, one of a level where that level is required."""

    INTEGRITY = "integrity"
    LEVEL = "level"
    TIMING = "timing"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that verification or timing noticed, e.g. `code="mean_offset_30"`."""

    code: str
    kind: FindingKind
    message: str
    fatal: bool = False
    status: Status | None = None
    """The status that a fatal finding gives the solution."""

    @classmethod
    def note(cls, code: str, message: str) -> Self:
        """Make a finding that decides nothing."""
        return cls(code=code, kind=FindingKind.NOTE, message=message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One shape or parameter set of a problem: a name and the module constants it overrides."""

    name: str
    overrides: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """Where an output is wrong: its place in the output structure, an index into it, and both values."""

    output: str
    index: tuple[int, ...]
    got: float
    want: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Correctness:
    """What checking all outputs of all calls found; ratios are in units of the tolerance (1 is the limit)."""

    max_abs_err: float
    max_rel_err: float
    contract_ratio: float
    oracle_ratio: float | None = None
    reference_ratio: float | None = None
    oracle_factor: float = 4.0
    contract: str = "held"
    """`held`, `unattainable` (the reference itself misses it) or `vacuous` (zeros would pass)."""
    elements: int = 0
    wrong_elements: int = 0
    calls: int = 0
    seeds: int = 0
    mismatches: tuple[Mismatch, ...] = ()

    @property
    def tolerance_ratio(self) -> float:
        """The ratio that decided: the contract's, or the oracle's where the contract cannot decide."""
        if self.contract == "held" or self.oracle_ratio is None:
            return self.contract_ratio
        return self.oracle_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One timed call of one arm. `marked` samples were throttled or disturbed; they are kept, never dropped."""

    process: int
    block: int
    sequence: int
    arm: str
    """`reference` or `candidate`."""
    t_event_ns: int
    """Time of one call by the clock that the row's `timer` names: events, the judge's, or the monotonic clock."""
    t_host_submit_ns: int
    t_wall_ns: int
    """Time of one call by the judge's clock: of a round behind its gate, or, on a CPU, of the request."""
    calls: int = 1
    """Calls of the round, by which times are divided already; on a CPU, calls that they are the median of."""
    sm_clock_mhz: int | None = None
    power_mw: int | None = None
    temperature_c: int | None = None
    throttle_reasons: int | None = None
    marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The paired samples of one process (replicate) of one (problem, solution, case)."""

    samples: tuple[Sample, ...]
    timer: str
    """Whose clock the samples quote: `events` in the worker, `gate` (the judge's), `wall` (the judge's, of plain loops,
    where calls wait for the device) or `host` (the monotonic clock in the worker, on a CPU)."""
    l2: str
    """`flushed` before each round, whose calls have inputs and outputs of their own; `warm`; or `none` on a CPU."""
    attested_ns: float | None = None
    """Time per call by the judge's clock: of rounds behind its gate; on a CPU the slope of wall time over calls."""
    attested_half_width_ns: float | None = None
    """How far from the truth that can be."""
    attestation: str = "none"
    """`held`, `weak` (waits for the device, or too short to attest on a CPU) or `none`."""
    wall_ns: float | None = None
    """Time per call of a plain loop, the host's work included."""
    ref_wall_ns: float | None = None
    flags: tuple[str, ...] = ()
    """`not_settled`, `throttled`, `resolution_limited`, `interference`, `drift`, `bimodal`, `outliers`, ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A solution that was right in every check of this case, with one Timing per process."""

    correctness: Correctness
    timings: tuple[Timing, ...]
    findings: tuple[Finding, ...] = ()
    level: Level | None = None
    """The highest that it holds; None where nothing was verified."""
    lacks: tuple[str, ...] = ()
    """Keys of `levels.PROPERTIES`, sorted."""
    log: str = ""
    """The tail of what the solution printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A solution that was not: it cannot hold a time."""

    status: Status
    reason: str
    log: str = ""
    correctness: Correctness | None = None
    findings: tuple[Finding, ...] = ()
    diagnosis: Diagnosis | None = None
    """Why its values are wrong, where one of the usual explanations fits."""
    level: Level | None = None
    """The highest that it holds, which is below the required one; None for one that does not do the task."""
    lacks: tuple[str, ...] = ()


Outcome = Passed | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the problem must move and compute at least, per call, for one case."""

    dram_bytes: int
    """Compulsory traffic: inputs, outputs and parameters, each once."""
    flops: int
    flops_by_precision: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """What one device can do, as measured on it by `kbench doctor`."""

    copy_bytes_per_s: float
    """Read plus written bytes of a large device-to-device copy."""
    fp32_flops_per_s: float
    tf32_flops_per_s: float | None = None
    bf16_flops_per_s: float | None = None
    measured_utc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The machine and software that a row was measured with."""

    device: str
    """`cuda` or `cpu`."""
    gpu_name: str
    """The GPU's name; on the CPU device the processor's model name."""
    gpu_uuid: str
    driver: str
    cuda: str
    torch: str
    l2_bytes: int | None = None
    memory_bytes: int | None = None
    capability: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One line of a results CSV: one process of one (problem, solution, case). Field order is column order."""

    schema_version: int
    run_id: str
    started_utc: str
    git_commit: str
    git_dirty: bool
    source_sha256: str
    """Of the solution file and every kernel source that its build read."""
    problem: str
    problem_path: str
    """From the folder that the run was started in, or absolute; empty for a shipped one, which its name finds."""
    problem_sha256: str
    solution: str
    solution_path: str
    entry: str
    """The class or function that was judged, where it is not `ModelNew`."""
    case: str
    overrides: str
    """The case's constants as JSON, `--set` included."""
    process: int
    status: str
    reason: str
    findings: str
    """Codes of the findings, separated by spaces."""
    level: str
    """`task`, `module` or `general`: the highest that it holds; empty for none."""
    lacks: str
    """Codes of the properties that keep it from higher ones, sorted, separated by spaces."""
    required_level: str
    accepted: str
    """Codes of `--accept`, sorted, separated by spaces."""
    device: str
    timer: str
    l2: str
    mode: str
    """`cold`, `warm` or `graph`."""
    samples: int
    time_ns_median: int | None
    time_ns_q1: int | None
    time_ns_q3: int | None
    time_ns_min: int | None
    ref_time_ns_median: int | None
    speedup: float | None
    """Reference time over candidate time, from the pairs of this process."""
    speedup_low: float | None
    """95 % interval over processes, the same in each row of the case; one process has none."""
    speedup_high: float | None
    attested_ns: int | None
    attested_half_width_ns: int | None
    attestation: str
    wall_ns: int | None
    """Time per call of a plain loop, the host's work included."""
    ref_wall_ns: int | None
    max_abs_err: float | None
    max_rel_err: float | None
    tolerance_ratio: float | None
    oracle_ratio: float | None
    oracle_factor: float | None
    contract: str
    isolation: str
    weights: str
    """How parameters were synchronised: `name`, `order`, `seed` or `none`."""
    tf32: bool
    dram_bytes: int | None
    flops: int | None
    limit_ns: int | None
    percent_of_limit: float | None
    gpu_name: str
    gpu_uuid: str
    driver: str
    cuda: str
    torch: str
    sm_clock_mhz: int | None
    throttled: bool
    flags: str
    samples_sha256: str
    """Of this process's lines in the samples file, so that an edited file is refused."""
    kbench_version: str
