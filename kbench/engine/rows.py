"""The row of a unit in a results file."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kbench.build import manifest
from kbench.catalog.registry import Entry
from kbench.core import roofline
from kbench.core.kernel_names import flag_of
from kbench.core.model import (
    SCHEMA_VERSION,
    Cost,
    Failed,
    Passed,
    ResultRow,
    Sample,
    Timing,
)
from kbench.core.timed import timed_of
from kbench.core.version import __version__
from kbench.engine.task import TaskVerdict
from kbench.storage import rows as rowmaker
from kbench.storage.rows import figures
from kbench.storage.versions import git_state

ENVIRONMENT_COLUMNS = ("gpu_name", "gpu_uuid", "driver", "cuda", "torch")
ERROR_COLUMNS = ("max_abs_err", "max_rel_err", "tolerance_ratio", "oracle_ratio", "oracle_factor")
NOT_TIMED = Timing(samples=(), timer="", l2="")


def provenance_of(problem: Entry, run_id: str, started_utc: str | None = None) -> dict[str, Any]:
    """Return the cells that all rows of a run share; the git commit is that of the working folder, if it has one."""
    commit, dirty = git_state(Path.cwd())
    return {
        "run_id": run_id,
        "started_utc": started_utc or datetime.now(UTC).isoformat(timespec="seconds"),
        "git_commit": commit,
        "git_dirty": dirty,
        "problem": problem.name,
        "problem_path": problem.recorded_path,
        "problem_sha256": manifest.identity(problem.path),
    }


def rows_of(verdict: TaskVerdict, run_id: str, started_utc: str) -> list[tuple[ResultRow, Sequence[Sample]]]:
    """Return the rows of a task's processes for a results file, each with its samples."""
    provenance = provenance_of(verdict.task.problem, run_id, started_utc)
    so_far = [replace(verdict, results=verdict.results[: count + 1]) for count in range(len(verdict.results))]
    made = tuple(make_row(provenance, each) for each in so_far)
    outcome = verdict.outcome
    if isinstance(outcome, Passed) and outcome.timings:
        made = rowmaker.with_interval(made, outcome.timings, verdict.task.options.precision)
        flag = flag_of(outcome.own_share) if verdict.task.solution.builtin is None else ""
        made = rowmaker.with_own_share(made, outcome.own_share, flag)
    return [(row, result.samples) for row, result in zip(made, verdict.results, strict=True)]


def make_row(provenance: dict[str, Any], verdict: TaskVerdict) -> ResultRow:
    """Make the row of a task's last process, with its own errors; a failure has no time and no speed-up."""
    task, result, outcome = verdict.task, verdict.last, verdict.outcome
    options, solution, case = task.options, task.solution, task.case
    if result.problem_sha256:
        provenance = {**provenance, "problem_sha256": result.problem_sha256}
    timing = outcome.timings[-1] if isinstance(outcome, Passed) and outcome.timings else NOT_TIMED
    failed = outcome if isinstance(outcome, Failed) else None
    errors, here, cost = result.outcome.correctness, result.environment, result.cost
    times = figures(timing.samples)
    median_ns = times["time_ns_median"] or 0
    bound = None
    if cost is not None and result.peaks is not None:
        bound = roofline.limit(cost, result.peaks, tf32=options.allow_tf32)
    return ResultRow(
        schema_version=SCHEMA_VERSION,
        **provenance,
        source_sha256=result.source_sha256 or manifest.identity(solution.path, solution.variant),
        solution=solution.name,
        solution_path=solution.recorded_path,
        entry="" if solution.builtin else solution.variant,
        case=case.name,
        timed=timed_of(case.name),
        overrides=json.dumps(case.overrides, default=str),
        process=len(verdict.results) - 1,
        status=failed.status if failed else "passed",
        reason=failed.reason if failed else "",
        findings=" ".join(dict.fromkeys(finding.code for finding in outcome.findings)),
        level=outcome.level or "",
        lacks=" ".join(outcome.lacks),
        required_level=options.level,
        accepted=" ".join(options.accept),
        device=here.device if here else options.device,
        timer=timing.timer,
        l2=timing.l2,
        mode=options.mode,
        **times,
        speedup_low=None,
        speedup_high=None,
        attested_ns=_whole(timing.attested_ns),
        attested_half_width_ns=_whole(timing.attested_half_width_ns),
        attestation=timing.attestation,
        wall_ns=_whole(timing.wall_ns),
        ref_wall_ns=_whole(timing.ref_wall_ns),
        **_fields(errors, ERROR_COLUMNS, None),
        contract=errors.contract if errors else "",
        **_fields(result, ("isolation", "tensors", "weights"), ""),
        tf32=options.allow_tf32,
        **_work(cost, median_ns),
        peak_bytes=outcome.peak_bytes if isinstance(outcome, Passed) else None,
        limit_ns=round(bound.limit_ns) if bound else None,
        limit_rate=bound.rate if bound else "",
        percent_of_limit=100 * bound.limit_ns / median_ns if bound and median_ns > 0 else None,
        own_share=outcome.own_share if isinstance(outcome, Passed) else None,
        **_fields(here, ENVIRONMENT_COLUMNS, ""),
        flags=" ".join(_flags(timing, bound, median_ns)),
        samples_sha256="",
        kbench_version=__version__,
    )


def _fields(record: object, names: Sequence[str], absent: object) -> dict[str, Any]:
    return {name: getattr(record, name, absent) for name in names}


def _work(cost: Cost | None, median_ns: int) -> dict[str, Any]:
    """Return what a call moves and computes, and its rates."""
    dram_bytes, flops = (None, None) if cost is None else (cost.dram_bytes, cost.flops)
    gb_per_s, tflop_per_s = None, None
    if cost is not None and median_ns > 0:
        gb_per_s, tflop_per_s = cost.dram_bytes / median_ns, cost.flops / median_ns / 1e3
    return {"dram_bytes": dram_bytes, "flops": flops, "gb_per_s": gb_per_s, "tflop_per_s": tflop_per_s}


def _whole(ns: float | None) -> int | None:
    return None if ns is None else round(ns)


def _flags(timing: Timing, bound: roofline.Limit | None, median_ns: float) -> list[str]:
    """Return the flags of a row; a limit of memory binds only data that comes from memory."""
    binds = bound is not None and bool(timing.samples) and (timing.l2 == "flushed" or bound.bound_by == "compute")
    beats = bound is not None and binds and median_ns < bound.limit_ns
    return [*timing.flags, *(["beats_limit"] if beats else [])]
