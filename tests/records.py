"""Records as runs make them, for tests: rows, samples and whole runs with known ratios."""

from pathlib import Path
from typing import Any

import numpy as np

from kbench.calibrate import AgainstItself, Calibration
from kbench.core.model import SCHEMA_VERSION, ResultRow, Sample
from kbench.core.timed import timed_of
from kbench.report import run as report
from kbench.report.summary import RunSummary
from kbench.report.table import as_markdown, as_text
from kbench.selftest.checks import Checked
from kbench.storage.results import Run, RunWriter, group_key, read_rows
from kbench.storage.rows import figures

ROW = {
    "schema_version": SCHEMA_VERSION,
    "run_id": "run-1",
    "started_utc": "2026-11-20T12:00:00Z",
    "git_commit": "a1b2c3d",
    "git_dirty": True,
    "source_sha256": "5" * 64,
    "problem": "group_norm",
    "problem_sha256": "7" * 64,
    "problem_path": "",
    "solution_path": "",
    "entry": "",
    "solution": "fast",
    "case": "small",
    "overrides": '{"batch_size": 2, "dim1": 64}',
    "process": 0,
    "status": "passed",
    "reason": "",
    "findings": "",
    "level": "general",
    "lacks": "",
    "required_level": "module",
    "accepted": "",
    "device": "cuda",
    "timer": "events",
    "l2": "flushed",
    "mode": "cold",
    "samples": 20,
    "time_ns_median": 100_000,
    "time_ns_q1": 99_000,
    "time_ns_q3": 101_000,
    "time_ns_min": 98_000,
    "ref_time_ns_median": 150_000,
    "speedup": 1.5,
    "speedup_low": 1.49,
    "speedup_high": 1.51,
    "attested_ns": 100_500,
    "attested_half_width_ns": 900,
    "attestation": "held",
    "wall_ns": 112_000,
    "ref_wall_ns": 163_000,
    "max_abs_err": 3.1e-7,
    "max_rel_err": 1e-6,
    "tolerance_ratio": 0.03,
    "oracle_ratio": None,
    "oracle_factor": 4.0,
    "contract": "held",
    "isolation": "landlock+namespaces",
    "tensors": "float32[8] -> float32[8]",
    "weights": "name",
    "tf32": False,
    "dram_bytes": 100_000_000,
    "flops": 5_000_000,
    "gb_per_s": 400.0,
    "tflop_per_s": 0.05,
    "peak_bytes": 1_000_000,
    "limit_ns": 25_000,
    "limit_rate": "memory",
    "percent_of_limit": 25.0,
    "own_share": 0.75,
    "gpu_name": "NVIDIA H200",
    "gpu_uuid": "GPU-1",
    "driver": "580.65",
    "cuda": "13.0",
    "torch": "2.11.0",
    "sm_clock_mhz": 1980,
    "throttled": False,
    "flags": "",
    "samples_sha256": "",
    "kbench_version": "0.1.0",
}
FIVE = [0.5, 0.5002, 0.4999, 0.5001, 0.4998]
"""Ratios of five processes that agree."""
WALLS = ("wall_ns", "ref_wall_ns")
OF_PROCESSES = (*WALLS, "max_abs_err")
TIMED = [
    *["time_ns_median", "time_ns_q1", "time_ns_q3", "time_ns_min", "ref_time_ns_median"],
    *["speedup", "speedup_low", "speedup_high", "attested_ns", "limit_ns", "percent_of_limit", "own_share"],
    *["attested_half_width_ns", "wall_ns", "ref_wall_ns"],
]


def make_row(*, timed: bool = True, **changes: Any) -> ResultRow:
    """One valid row; `timed=False` empties what only a passed solution has."""
    values = dict(ROW)
    if not timed:
        values |= dict.fromkeys(TIMED) | {"samples": 0, "attestation": "none"}
    values |= changes
    return ResultRow(**{"timed": timed_of(values["case"]), **values})


def make_samples(
    *,
    process: int = 0,
    pairs: int = 20,
    reference_ns: float = 150_000,
    ratio: float = 0.667,
    wobble: float = 0.001,
    arms: tuple[str, ...] = ("reference", "candidate"),
    marked: tuple[int, ...] = (),
) -> list[Sample]:
    """ABBA blocks whose pairs have the given ratio of the second arm to the first, with a known wobble."""
    samples = []
    for block in range((pairs + 1) // 2):
        order = list(arms) if block % 2 else list(reversed(arms))
        for arm in order + order[::-1]:
            sequence = len(samples)
            scale = (1.0, ratio, ratio**2)[arms.index(arm)]
            noise = 1 + wobble * ((sequence * 7919) % 11 - 5) / 5
            samples.append(
                Sample(
                    process=process,
                    block=block,
                    sequence=sequence,
                    arm=arm,
                    t_event_ns=max(1, round(reference_ns * scale * noise)),
                    t_host_submit_ns=9_000,
                    t_wall_ns=400_000,
                    sm_clock_mhz=1980,
                    marked=block in marked,
                )
            )
    return samples


def make_run(
    directory: Path,
    name: str,
    ratios: dict[str, list[float]],
    *,
    case: str = "small",
    wobble: float = 0.0,
    reference_ns: float = 150_000_000,
    **changes: Any,
) -> Run:
    """A saved run: for each solution the ratio candidate/reference of each of its processes.

    An empty list makes a solution that crashed. Rows reach a quarter of the limit; of intervals they have what
    `changes` say; wall times and errors may be a list, one for each process.
    """
    lists = {name: changes.pop(name) for name in OF_PROCESSES if isinstance(changes.get(name), list)}
    made: list[tuple[ResultRow, list[Sample]]] = []
    for solution, of_processes in ratios.items():
        if not of_processes:
            crashed = {"run_id": name, "status": "crashed", "reason": "signal 11", "level": ""}
            made.append((make_row(solution=solution, case=case, timed=False, **(crashed | changes)), []))
        for process, ratio in enumerate(of_processes):
            samples = make_samples(process=process, ratio=ratio, wobble=wobble, reference_ns=reference_ns)
            told = {"run_id": name, "speedup_low": None, "speedup_high": None, **figures(samples)}
            own = {name: each[process] for name, each in lists.items()}
            own |= {wall: round(own[wall]) for wall in WALLS if wall in own}
            told |= {"limit_ns": round(told["time_ns_median"] / 4), "percent_of_limit": 25.0}
            made.append((make_row(solution=solution, case=case, process=process, **(told | changes | own)), samples))
    Path(directory).mkdir(parents=True, exist_ok=True)
    path = RunWriter(directory, name).replace_all(made)
    # Not by `read_run`: of a hundred runs, parsing the samples took most of the time of a test file.
    return Run(
        path=path,
        rows=tuple(read_rows(path)),
        samples={group_key(row): tuple(samples) for row, samples in made if samples},
    )


def make_check(**changes: Any) -> Checked:
    """What a selftest says of a fixture: by default a cheat that is caught."""
    values: dict[str, Any] = {"name": "one", "honest": False, "category": "clock", "problem": "gelu", "catalogue": ""}
    values |= {"expected": ("wrong_value",), "status": "wrong_value", "reason": "", "findings": (), "level": ""}
    values |= {"lacks": (), "speedup": None, "escapes": (), "elapsed_s": 2.0, "complaint": None}
    return Checked(**values | changes)


def times(factor: float, ratios: list[float] = FIVE) -> list[float]:
    """Ratios, each times the same factor."""
    return [ratio * factor for ratio in ratios]


def against_itself(time_ns: float, between: float) -> AgainstItself:
    """What 11 processes measured of a reference beside itself, with estimates of so large a spread."""
    wave = np.linspace(-1, 1, 11)
    estimates = (wave / wave.std(ddof=1) * between).tolist()
    return AgainstItself(problem="p", case="c", time_ns=time_ns, pairs=30, within=0.004, estimates=tuple(estimates))


def calibration(*subjects: AgainstItself, gpu_uuid: str = "GPU-1") -> Calibration:
    device = {"gpu_name": "NVIDIA H200", "gpu_uuid": gpu_uuid, "driver": "580"}
    return Calibration(schema=1, **device, measured_utc="", subjects=subjects)


def text_of(run: RunSummary, *, verbosity: int = 0, width: int | None = None) -> str:
    """Write a run as a terminal of some width shows it."""
    return as_text(report.blocks(run, verbosity=verbosity), width)


def markdown_of(run: RunSummary) -> str:
    """Write a run as `--format md` does."""
    return as_markdown(report.blocks(run))
