"""The figures of rows of a results file: from samples, over processes, and against what the samples say."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kbench.core.model import ResultRow, Sample, Timing
from kbench.core.stats import arm_times_ns, pair_log_ratios, timings_interval

TIME_COLUMNS = ("time_ns_median", "time_ns_q1", "time_ns_q3", "time_ns_min", "ref_time_ns_median")


def figures(samples: Sequence[Sample]) -> dict[str, Any]:
    """Compute the cells of a row that follow from its own samples, by column."""
    times: list[int | None] = [None] * 5
    if samples:
        candidate = np.quantile(arm_times_ns(samples), [0.5, 0.25, 0.75, 0.0])
        times = [round(ns) for ns in (*candidate, np.median(arm_times_ns(samples, "reference")))]
    ratios = pair_log_ratios(samples)
    clocks = [sample.sm_clock_mhz for sample in samples if sample.sm_clock_mhz is not None]
    return {
        "samples": len(samples),
        **dict(zip(TIME_COLUMNS, times, strict=True)),
        "speedup": math.exp(-float(np.median(ratios))) if ratios else None,
        "sm_clock_mhz": statistics.median_high(clocks) if clocks else None,
        "throttled": any(sample.marked for sample in samples),
    }


def contradiction(row: ResultRow, samples: Sequence[Sample]) -> str | None:
    """Name the first cell of a row that disagrees with its samples, with both values; None if all agree."""
    for name, expected in figures(samples).items():
        found = getattr(row, name)
        same = found == expected
        if isinstance(found, float) and isinstance(expected, float):
            same = math.isclose(found, expected, rel_tol=1e-9)
        if not same:
            return f"`{name}` is {found}, but its samples give {expected}"
    if row.percent_of_limit is not None and row.limit_ns and row.time_ns_median:
        expected, rounding = 100 * row.limit_ns / row.time_ns_median, 1 / row.limit_ns + 1 / row.time_ns_median
        if not math.isclose(row.percent_of_limit, expected, rel_tol=rounding):
            return f"`percent_of_limit` is {row.percent_of_limit}, but its limit and its samples give {expected:.4g}"
    return None


def interval_contradiction(rows: Sequence[ResultRow], samples: Sequence[Sequence[Sample]]) -> str | None:
    """Name an interval in the rows of a case that disagrees with its samples (one sequence per process)."""
    timings = [Timing(samples=tuple(of_process), timer=rows[0].timer, l2=rows[0].l2) for of_process in samples]
    interval = timings_interval(timings)
    expected = interval.as_speedup() if interval is not None else None
    for row in rows:
        if row.speedup_low is None and row.speedup_high is None:  # the case failed, or its run was interrupted
            continue
        if expected is None:
            return "`speedup_low` and `speedup_high` have values, but its samples give no interval"
        for name, bound in (("speedup_low", expected.low), ("speedup_high", expected.high)):
            found = getattr(row, name)
            if found is None or not math.isclose(found, bound, rel_tol=1e-9):
                return f"`{name}` is {found}, but its samples give {bound}"
    return None


def with_interval(rows: Sequence[ResultRow], timings: Sequence[Timing], precision: float) -> tuple[ResultRow, ...]:
    """Give every row of a case the interval over all its processes; a too wide one is flagged."""
    interval = timings_interval(timings)
    if interval is None:
        return tuple(rows)
    speedup = interval.as_speedup()
    wide = interval.half_width > math.log1p(precision)
    return tuple(
        replace(
            row,
            speedup_low=speedup.low,
            speedup_high=speedup.high,
            flags=" ".join([*row.flags.split(), *(["imprecise"] if wide else [])]),
        )
        for row in rows
    )


def with_own_share(rows: Sequence[ResultRow], share: float | None, flag: str) -> tuple[ResultRow, ...]:
    """Give every row of a case the share of the solution's own kernels, and the flag that follows from it, if any."""
    return tuple(replace(row, own_share=share, flags=f"{row.flags} {flag}".strip()) for row in rows)
