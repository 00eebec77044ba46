"""Numbers for readers: one unit per column, as many digits as the interval supports, empty if absent."""

import math
from collections.abc import Iterable
from typing import NamedTuple


class TimeUnit(NamedTuple):
    """A unit of time and its size in nanoseconds."""

    name: str
    size_ns: float


ABSENT = "–"

_DURATIONS = (TimeUnit("s", 1e9), TimeUnit("ms", 1e6), TimeUnit("µs", 1e3), TimeUnit("ns", 1.0))
_BYTES = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))
_DEFAULT_DIGITS = 3
_MAX_DECIMALS = 4
_UNCONFIRMED_DIGITS = 2
"""Digits of a speed-up that no clock confirms, or whose noise is unknown."""
_ONE_DIGIT_FROM = 0.5
"""Share of a speed-up: if its half-width is larger, no digit is confirmed, and the first one is written."""
_BAR, _BAR_WIDTH = "█▉▊▋▌▍▎▏", 10


def unit_for(times_ns: Iterable[float | None]) -> TimeUnit:
    """Return the unit in which the smallest time is at least 1; `ns` without times."""
    smallest = min((abs(time) for time in times_ns if time), default=1.0)
    return next((unit for unit in _DURATIONS if smallest >= unit.size_ns), _DURATIONS[-1])


def number(value: float, half_width: float | None = None, least_digits: int = 0) -> str:
    """Write `value` with the digits that its half-width supports, and `least_digits` at least; else with three.

    A half-width is written with one digit if its first digit is 3 or more, else with two, so that rounding adds little.
    """
    if not math.isfinite(value):
        return str(value)
    magnitude = math.floor(math.log10(abs(value))) if value else 0
    if half_width is not None and half_width > 0 and math.isfinite(half_width):
        decimals = max(-math.floor(math.log10(half_width / 3)), least_digits - 1 - magnitude if least_digits else 0)
    else:
        decimals = max(_DEFAULT_DIGITS, least_digits) - 1 - magnitude if value else 0
    return f"{value:,.{min(max(decimals, 0), _MAX_DECIMALS)}f}"


def time_cell(time_ns: float | None, unit: TimeUnit, half_width_ns: float | None = None) -> str:
    """Write a time in a column's unit, without the unit."""
    if time_ns is None:
        return ABSENT
    half = None if half_width_ns is None else half_width_ns / unit.size_ns
    return number(time_ns / unit.size_ns, half, 2)


def duration(time_ns: float | None) -> str:
    """Write a time with the unit that fits it: `9.24 ms`."""
    if time_ns is None:
        return ABSENT
    unit = unit_for([time_ns])
    return f"{time_cell(time_ns, unit)} {unit.name}"


def seconds(elapsed_s: float) -> str:
    """Write a duration: `0.4 s`, `14.2 s`, `3 min 05 s`."""
    if elapsed_s < 99.95:
        return f"{elapsed_s:.1f} s"
    minutes, rest = divmod(round(elapsed_s), 60)
    return f"{minutes} min {rest:02d} s"


def time_left(done: int, total: int, elapsed_s: float) -> str:
    """Estimate the time left from the pace so far: `about 6 min 10 s left`; empty as long as nothing is done."""
    return f"about {seconds(elapsed_s / done * (total - done))} left" if done else ""


def speedup(
    value: float | None, low: float | None = None, high: float | None = None, *, alone: bool = False, weak: bool = False
) -> str:
    """Write a speed-up with the digits that its interval supports: `1.972×`; a weak one with two at most: `~1.9×`.

    Where not even the first digit means anything, it stands alone, with a `~`; `-v` has what is known of the interval.
    """
    if value is None:
        return ABSENT
    half = None if low is None or high is None else (high - low) / 2
    if (alone or weak) and half is not None and half > _ONE_DIGIT_FROM * value:
        return f"~{confirmed(value, None, 1)}×"
    if weak:
        text = confirmed(value, half, _UNCONFIRMED_DIGITS)
        is_outside = low is not None and high is not None and not low <= float(text.replace(",", "")) <= high
        return f"~{confirmed(value, None, _UNCONFIRMED_DIGITS) if is_outside else text}×"
    if not alone:
        return f"{number(value, half, 2)}×"
    return f"{confirmed(value, half) if half else confirmed(value, half, _UNCONFIRMED_DIGITS)}×"


def confirmed(value: float, half_width: float | None, most_digits: int = _DEFAULT_DIGITS + 1) -> str:
    """Write `value` with confirmed digits only: 1.166 ± 0.03 is `1.2`, 1.166 ± 0.004 is `1.17`, 0.71 ± 0.33 is `1`.

    Where that would be nothing, or outside the interval, the first digit is written however wide that is.
    """
    if not math.isfinite(value) or not value:
        return str(value)

    def decimals_of(digits: int) -> int:
        return digits - 1 - math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))

    decimals, first = decimals_of(most_digits), decimals_of(1)
    if half_width is not None and half_width > 0 and math.isfinite(half_width):
        decimals = min(decimals, math.floor(-math.log10(half_width)))
        rounded = round(value, decimals)
        if not rounded or abs(rounded - value) > half_width:
            decimals = max(decimals, first)
    return f"{round(value, decimals):,.{max(decimals, 0)}f}"


def interval(low: float | None, high: float | None, *, weak: bool = False) -> str:
    """Write both ends of an interval of a ratio: `1.969 … 1.975`; two digits at most for a weak attestation."""
    if low is None or high is None:
        return ABSENT
    half = (high - low) / 2
    if weak:
        return " … ".join(confirmed(end, None, _UNCONFIRMED_DIGITS) for end in (low, high))
    return f"{number(low, half, 2)} … {number(high, half, 2)}"


def plus_minus(time_ns: float | None, half_width_ns: float | None, unit: TimeUnit) -> str:
    """Write a time with its half-width, both with the digits that the half-width supports: `56.29 ± 0.56`."""
    if time_ns is None:
        return ABSENT
    if not half_width_ns:
        return time_cell(time_ns, unit)
    half = half_width_ns / unit.size_ns
    decimals = min(max(1 - math.floor(math.log10(half)), 0), _MAX_DECIMALS)
    return f"{time_ns / unit.size_ns:,.{decimals}f} ± {half:,.{decimals}f}"


def change(share: float | None, half_width: float | None = None) -> str:
    """Write a relative change in percent with its sign: `+7.8 %`."""
    if share is None:
        return ABSENT
    text = number(abs(share) * 100, None if half_width is None else half_width * 100)
    is_zero = not text.strip("0.,")
    sign = "±" if is_zero else "+" if share > 0 else "−"
    return f"{sign}{text} %"


def percent(value: float | None) -> str:
    """Write a number in percent: `82 %`, and `8.2 %` below ten."""
    if value is None:
        return ABSENT
    return f"{value:.1f} %" if value < 9.95 else f"{value:.0f} %"


def error_size(value: float | None) -> str:
    """Write an error such as 3.1e-07."""
    if value is None:
        return ABSENT
    return f"{value:.1e}" if value and math.isfinite(value) else f"{value:g}"


def byte_size(count: float | None) -> str:
    """Write an amount of memory in decimal units: `7.52 GB`."""
    if count is None:
        return ABSENT
    name, size = next((pair for pair in _BYTES if count >= pair[1]), _BYTES[-1])
    return f"{number(count / size)} {name}"


def rate(count: int | None, time_ns: float | None, unit: str) -> str:
    """Write `count` per `time_ns` in billions, or in trillions from 1000 billions on: `3.81 TB/s`."""
    if not count or not time_ns:
        return ABSENT
    billions = count / time_ns
    return f"{number(billions / 1e3)} T{unit}/s" if billions >= 1e3 else f"{number(billions)} G{unit}/s"


def bar(share_percent: float | None) -> str:
    """Draw a share as a bar; empty for an absent one, full from 100 % on."""
    if share_percent is None:
        return ""
    eighths = round(min(max(share_percent / 100, 0.0), 1.0) * _BAR_WIDTH * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_BAR[8 - rest] if rest else "")).ljust(_BAR_WIDTH, "·")
