"""Ranges of the cells of a results file: readers compute with them, so values out of range are refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.core.levels import unknown_word
from kbench.storage import csvfile

LARGEST = (1 << 63) - 1
LONGEST_NAME = 200
"""Longest name and UUID of a device, which become names of folders and files."""

_COUNT = (0, LARGEST)
_TIME = (1, LARGEST)
_ANY = (-LARGEST, LARGEST)

Ranges = Mapping[str, tuple[float, float]]

ROW_RANGES: Ranges = {
    **dict.fromkeys(("process", "samples", "attested_half_width_ns", "wall_ns", "ref_wall_ns"), _COUNT),
    **dict.fromkeys(("dram_bytes", "flops", "limit_ns", "sm_clock_mhz"), _COUNT),
    **dict.fromkeys(("time_ns_median", "time_ns_q1", "time_ns_q3", "time_ns_min", "ref_time_ns_median"), _TIME),
    **dict.fromkeys(("speedup", "speedup_low", "speedup_high"), (1e-300, 1e300)),
    "attested_ns": _ANY,
    "percent_of_limit": (0, 1e300),
    "own_share": (0, 1),
}
SAMPLE_RANGES: Ranges = {
    **dict.fromkeys(("process", "block", "sequence", "sm_clock_mhz", "power_mw", "throttle_reasons"), _COUNT),
    **dict.fromkeys(("t_event_ns", "calls"), _TIME),
    **dict.fromkeys(("t_host_submit_ns", "t_wall_ns", "temperature_c"), _ANY),
}


def require_ranges(path: Path, number: int, values: Mapping[str, Any], ranges: Ranges) -> None:
    """Check the numbers of one line against the ranges of their columns; an absent one is in range, NaN is not.

    Raises ResultsError naming line and column.
    """
    for column, (low, high) in ranges.items():
        value = values[column]
        if value is not None and not low <= value <= high:
            raise csvfile.refuse(path, f"has {str(value)[:40]} as `{column}` in line {number}")


def require_row(path: Path, number: int, values: Mapping[str, Any]) -> None:
    """Check one row: ranges, level and codes, lengths. Raises ResultsError naming line and column."""
    require_ranges(path, number, values, ROW_RANGES)
    for level, codes in (("level", "lacks"), ("required_level", "accepted")):
        word = unknown_word(values[level], values[codes])
        if word is not None:
            raise csvfile.refuse(path, f"has `{word[:40]}` as `{level}` or in `{codes}` in line {number}")
    for column in ("gpu_name", "gpu_uuid"):
        if len(values[column]) > LONGEST_NAME:
            raise csvfile.refuse(path, f"has {len(values[column])} characters as `{column}` in line {number}")
