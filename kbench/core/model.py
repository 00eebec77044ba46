"""The records that flow from plan to report. Frozen, keyword-only; units are in the names; absent is None."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from kbench.core.diagnosis import Diagnosis
from kbench.core.levels import Level
from kbench.core.ranges import NonNegative, Positive, PositiveRatio, Rate, Signed, UnitShare
from kbench.core.timed import FORWARD

SCHEMA_VERSION = 7
"""Version of the results files, the only one that is read."""


class Status(StrEnum):
    """End of the evaluation of one (problem, solution, case)."""

    PASSED = "passed"
    BUILD_FAILED = "build_failed"
    BUILD_TIMEOUT = "build_timeout"
    IMPORT_FAILED = "import_failed"
    IMPORT_TIMEOUT = "import_timeout"
    INIT_FAILED = "init_failed"
    RAISED = "raised"
    WRONG_VALUE = "wrong_value"
    WRONG_OUTPUT = "wrong_output"
    UNWRITTEN_OUTPUT = "unwritten_output"
    NONDETERMINISTIC = "nondeterministic"
    INPUT_MUTATED = "input_mutated"
    PARAMETER_MUTATED = "parameter_mutated"
    OUTPUT_ALIASED = "output_aliased"
    TAMPERED = "tampered"
    BELOW_LEVEL = "below_level"
    LIBRARY_ONLY = "library_only"
    LAUNCH_FAILED = "launch_failed"
    ILLEGAL_ACCESS = "illegal_access"
    CRASHED = "crashed"
    EXITED = "exited"
    CALL_TIMEOUT = "call_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    OUT_OF_MEMORY = "out_of_memory"
    PROTOCOL_ERROR = "protocol_error"
    UNFINISHED_OUTPUT = "unfinished_output"
    REFERENCE_FAILED = "reference_failed"
    NOT_VERIFIED = "not_verified"
    SKIPPED = "skipped"
    HARNESS_ERROR = "harness_error"


class Time(StrEnum):
    """Which of the two times of a call a comparison uses."""

    DEVICE = "device"
    WALL = "wall"


class FindingKind(StrEnum):
    """Why a finding matters: integrity is always fatal, a level if that level is required."""

    INTEGRITY = "integrity"
    LEVEL = "level"
    TIMING = "timing"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that verification or timing noticed, e.g. `code="mean_offset_30"`; a fatal one gives its `status`."""

    code: str
    kind: FindingKind
    message: str
    fatal: bool = False
    status: Status | None = None

    @classmethod
    def note(cls, code: str, message: str) -> Self:
        """Make a finding that decides nothing."""
        return cls(code=code, kind=FindingKind.NOTE, message=message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A name and the module constants that it overrides; it counts `weight` times in means over several cases."""

    name: str
    overrides: dict[str, Any] = field(default_factory=dict)
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One wrong element: its output's place in the structure, its index, and both values."""

    output: str
    index: tuple[int, ...]
    got: float
    want: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Correctness:
    """Result of checking all outputs of all calls; ratios are in tolerances (1 is the limit). Rows have no counts."""

    max_abs_err: float
    max_rel_err: float
    contract_ratio: float
    oracle_ratio: float | None = None
    reference_ratio: float | None = None
    oracle_factor: float = 4.0
    contract: str = "held"
    """`held`, `unattainable` (the reference itself misses it) or `vacuous` (zeros would pass)."""
    elements: int | None = None
    wrong_elements: int | None = None
    calls: int | None = None
    seeds: int | None = None
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

    process: NonNegative
    """Number of the process (replicate), from 0."""
    block: NonNegative
    """Number of the block of pairs; reference and candidate alternate within a block."""
    sequence: NonNegative
    """Place in the order in which the calls of the process were timed."""
    arm: str
    """`reference` or `candidate`."""
    t_event_ns: Positive
    """Time of one call by the clock that the row's `timer` names: events, the judge's, or the monotonic clock."""
    t_host_submit_ns: Signed
    """Time that the worker's host needs to submit one call."""
    t_wall_ns: Signed
    """Time of one call by the judge's clock: of a round behind its gate, or, on a CPU, of the request."""
    calls: Positive = 1
    """Calls of the round; times are already divided by it. On a CPU: the calls that the time is the median of."""
    sm_clock_mhz: NonNegative | None = None
    """SM clock of the GPU."""
    power_mw: NonNegative | None = None
    """Power draw of the GPU."""
    temperature_c: Signed | None = None
    """Temperature of the GPU."""
    throttle_reasons: NonNegative | None = None
    """NVML's bit mask of the reasons why clocks are lowered."""
    marked: bool = False
    """True if the pair was throttled or disturbed, and so left out of the estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The paired samples of one process (replicate) of one (problem, solution, case)."""

    samples: tuple[Sample, ...] = field(repr=False)
    timer: str
    """Clock of the samples: `events` or `host` (the worker's), `judge`, or `wall` (plain loops)."""
    l2: str
    """`flushed` before each round, whose calls have inputs and outputs of their own; `warm`; or `none` on a CPU."""
    attested_ns: float | None = None
    """Time per call by the judge's clock: of rounds behind its gate; on a CPU of requests less their overhead."""
    attested_half_width_ns: float | None = None
    attestation: str = "none"
    """`held`, `weak` (waits for the device, or too short to attest on a CPU) or `none`."""
    wall_ns: float | None = None
    """Time per call of a plain loop, the host's work included."""
    ref_wall_ns: float | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A solution that was right in every check of this case, with one Timing per process."""

    correctness: Correctness
    timings: tuple[Timing, ...]
    findings: tuple[Finding, ...] = ()
    level: Level | None = None
    """The highest level that it holds; None if nothing was verified."""
    lacks: tuple[str, ...] = ()
    """Keys of `levels.PROPERTIES`, sorted."""
    own_share: float | None = None
    peak_bytes: int | None = None
    """Memory of a call at its peak beyond inputs and outputs; None on a CPU."""
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A solution that failed: the record cannot hold a time."""

    status: Status
    reason: str
    log: str = ""
    correctness: Correctness | None = None
    findings: tuple[Finding, ...] = ()
    diagnosis: Diagnosis | None = None
    """Explanation of wrong values, if a usual one fits."""
    level: Level | None = None
    """The highest level that it holds, below the required one; None if it does not do the task."""
    lacks: tuple[str, ...] = ()


Outcome = Passed | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The least that a call must move and compute, for one case."""

    dram_bytes: int
    """Compulsory traffic: inputs, outputs and parameters, each once."""
    flops: int
    flops_by_precision: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """Peak rates of one device, measured on it by `kbench doctor`."""

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
    """Version of the columns."""
    run_id: str
    """Identifier of the run; all its rows have the same one."""
    started_utc: str
    """Start of the run."""
    git_commit: str
    """Commit of the working folder; empty outside a repository."""
    git_dirty: bool
    """True if tracked files had uncommitted changes."""
    source_sha256: str
    """Hash of the solution's file and of every file that was read with it, toolchain apart."""
    problem: str
    """Name of the problem."""
    problem_path: str
    """Its file, relative to the run's working folder, or absolute; empty for a shipped problem."""
    problem_sha256: str
    """Hash of the problem's file and of every file that was read with it."""
    solution: str
    """Name of the solution."""
    solution_path: str
    """Its file, likewise; empty for a shipped solution."""
    entry: str
    """The class or function that was judged, if it is not `ModelNew`."""
    case: str
    """Name of the case."""
    timed: str = FORWARD
    """`forward`, or `forward+backward`, whose case is named `CASE+backward`."""
    overrides: str
    """The case's constants as JSON, those of `--set` included."""
    process: NonNegative
    """Number of the process (replicate), from 0."""
    status: str
    """`passed` or the status of the failure."""
    reason: str
    """Cause of the failure in one line; empty for a solution that passed."""
    findings: str
    """Codes of the findings, separated by spaces."""
    level: str
    """`task`, `module` or `general`: the highest level that the solution holds; empty for none."""
    lacks: str
    """Codes of the properties that keep it from higher levels, separated by spaces."""
    required_level: str
    """`--level`."""
    accepted: str
    """Codes of `--accept`, separated by spaces."""
    device: str
    """`cpu` or `cuda:INDEX`."""
    timer: str
    """Clock of the samples: `events`, `gate` (the judge's), `wall` (of plain loops); on a CPU `host` or `judge`."""
    l2: str
    """`flushed` before each round, `warm`, or `none` on a CPU."""
    mode: str
    """`cold`, `warm` or `graph`."""
    samples: NonNegative
    """Number of this process's lines in the samples file."""
    time_ns_median: Positive | None
    """Median device time of a call of the solution; on a CPU the time of a call."""
    time_ns_q1: Positive | None
    """First quartile of these times."""
    time_ns_q3: Positive | None
    """Third quartile of these times."""
    time_ns_min: Positive | None
    """Smallest of these times."""
    ref_time_ns_median: Positive | None
    """Median time of a call of the reference."""
    speedup: PositiveRatio | None
    """Reference time over candidate time, from the pairs of this process."""
    speedup_low: PositiveRatio | None
    """Lower end of the 95 % interval over processes; absent for one process."""
    speedup_high: PositiveRatio | None
    """Upper end of that interval."""
    attested_ns: Signed | None
    """Time of a call of the solution by the judge's clock."""
    attested_half_width_ns: NonNegative | None
    """Largest error of `attested_ns`."""
    attestation: str
    """`held`; `weak`: the judge's clock cannot confirm the time; `none`: nothing was timed."""
    wall_ns: NonNegative | None
    """Time per call of a plain loop, the host's work included, by the judge's clock."""
    ref_wall_ns: NonNegative | None
    """Wall time per call of the reference."""
    max_abs_err: float | None
    """Largest absolute difference from the reference; `inf` if a wrong value is not finite."""
    max_rel_err: float | None
    """Largest relative difference from the reference."""
    tolerance_ratio: float | None
    """Largest error in units of the tolerance that decided; 1 is the limit."""
    oracle_ratio: float | None
    """Largest error against the fp64 reference, in units of the tolerance."""
    oracle_factor: float | None
    """Factor on the fp32 reference's own error that a solution may have."""
    contract: str
    """`held`, `unattainable` (the reference itself misses it) or `vacuous` (zeros would pass)."""
    isolation: str
    """Rung of the sandbox that was used."""
    tensors: str
    """Types and shapes of the inputs and outputs of a call, as `float32[2,8] -> float32[2]`."""
    weights: str
    """Way in which parameters were synchronised: `name`, `order`, `seed` or `none`."""
    tf32: bool
    """True if TF32 was allowed on both sides."""
    dram_bytes: NonNegative | None
    """Compulsory traffic of a call: inputs, outputs and parameters, each once."""
    flops: NonNegative | None
    """Floating-point operations of a call, counted on the reference."""
    gb_per_s: Rate | None
    """Achieved bandwidth, as gigabytes (1e9) a second: `dram_bytes` over `time_ns_median`."""
    tflop_per_s: Rate | None
    """Achieved rate of arithmetic, as 1e12 FLOPs a second: `flops` over `time_ns_median`."""
    peak_bytes: NonNegative | None
    """Memory of torch's that a call takes at its peak beyond inputs and outputs, as its worker reports it (GPU)."""
    limit_ns: NonNegative | None
    """Least time for this traffic and these operations at the measured peaks."""
    limit_rate: str
    """The peak that decides it: `memory`, or an arithmetic, as `fp32` or `fp16 x 3` (a product of split factors)."""
    percent_of_limit: Rate | None
    """`limit_ns` over `time_ns_median`."""
    own_share: UnitShare | None
    """Share of a call's time in the solution's own kernels, as its worker reports it; absent if not known."""
    gpu_name: str
    """Name of the GPU; on a CPU the processor's."""
    gpu_uuid: str
    """UUID of the GPU."""
    driver: str
    """Version of the driver."""
    cuda: str
    """Version of CUDA that torch was built for."""
    torch: str
    """Version of torch."""
    sm_clock_mhz: NonNegative | None
    """Median SM clock of the samples."""
    throttled: bool
    """True if any sample was marked."""
    flags: str
    """Codes of the flags, separated by spaces."""
    samples_sha256: str
    """Hash of this process's lines in the samples file."""
    kbench_version: str
    """Version of kbench that wrote the row."""
