"""The figures of rows of a results file: from samples, over processes, and against what the samples say."""

import math
import statistics
from collections.abc import Mapping, Sequence
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


def contradiction(rows: Sequence[ResultRow], samples: Mapping[int, Sequence[Sample]]) -> str | None:
    """Name the first cell of a case's rows that disagrees with their samples (by process); None if all agree.

    A case that failed, or whose run was interrupted, has no interval.
    """
    timings = [Timing(samples=tuple(own), timer="", l2="") for own in samples.values() if own]
    interval = timings_interval(timings)
    speedup = None if interval is None else interval.as_speedup()
    bounds = {"speedup_low": speedup and speedup.low, "speedup_high": speedup and speedup.high}
    for row in rows:
        own = samples.get(row.process, ())
        expected, within = figures(own) if own else {}, dict[str, float]()
        if own and row.percent_of_limit is not None and row.limit_ns and row.time_ns_median:
            expected["percent_of_limit"] = 100 * row.limit_ns / row.time_ns_median
            within["percent_of_limit"] = 1 / row.limit_ns + 1 / row.time_ns_median  # both are rounded
        if row.speedup_low is not None or row.speedup_high is not None:
            expected |= bounds
        for name, value in expected.items():
            found = getattr(row, name)
            are_floats = isinstance(found, float) and isinstance(value, float)
            if not (math.isclose(found, value, rel_tol=within.get(name, 1e-9)) if are_floats else found == value):
                return f"process {row.process}: `{name}` is {found}, but its samples give {value}"
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
