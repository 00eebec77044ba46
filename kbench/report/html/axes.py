"""Axes of plots: where a value lies, in percent of the plot, and which values are written beside it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from kbench.report import units

MOST_TICKS = 6
"""More labels than this touch each other on a phone."""
ROOM = 0.04
"""Share of an axis that is left free at either end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A value that is written at an axis; `at` is in percent of its length."""

    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A linear or logarithmic axis from `low` to `high`; `unit` is written behind each tick."""

    low: float
    high: float
    log: bool = False
    unit: str = ""
    signed: bool = False

    def at(self, value: float) -> float:
        """Place a value, in percent from the axis's start; one beyond its ends is placed there."""
        low, high, value = (self._height(one) for one in (self.low, self.high, value))
        return round(100 * min(max((value - low) / (high - low), 0.0), 1.0), 2)

    def ticks(self) -> tuple[Tick, ...]:
        """Choose round values, at most six."""
        return tuple(Tick(at=self.at(value), text=self._text(value)) for value in self._round_values())

    def _height(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.log else value

    def _text(self, value: float) -> str:
        if self.log and not 1e-3 <= value < 1e5:
            exponent = math.floor(math.log10(value) + 1e-9)
            digit = round(value / 10**exponent)
            text = f"10{_raised(exponent)}" if digit == 1 else f"{digit}·10{_raised(exponent)}"
        else:
            text = f"{abs(round(value, 9)):,.9g}"
        sign = ("+" if value > 0 else "−" if value < 0 else "") if self.signed else "−" if value < 0 else ""
        return f"{sign}{text}{self.unit}"

    def _round_values(self) -> list[float]:
        return _decades(self.low, self.high) if self.log else _steps(self.low, self.high)


def around(values: Iterable[float | None], *, log: bool = False, unit: str = "", least_span: float = 0.0) -> Scale:
    """Make an axis that holds all values with some room; `least_span` is a share of the middle, of a log axis too."""
    present = [value for value in values if value is not None and math.isfinite(value) and (value > 0 or not log)]
    low, high = (min(present), max(present)) if present else (1.0, 1.0)
    if log:
        middle, half = math.sqrt(low * high), math.sqrt(high / low)
        half = max(half, 1 + least_span / 2, 1.02) ** (1 + 2 * ROOM)
        return Scale(low=middle / half, high=middle * half, log=True, unit=unit)
    middle, half = (low + high) / 2, (high - low) / 2
    half = (1 + 2 * ROOM) * max(half, abs(middle) * least_span / 2, 1e-9)
    return Scale(low=middle - half, high=middle + half, unit=unit)


def time_scale(times_ns: Iterable[float | None]) -> tuple[Scale, units.TimeUnit]:
    """Make a logarithmic axis of times, in the unit that suits them; values are placed in that unit."""
    present = [time for time in times_ns if time]
    unit = units.unit_for(present)
    return around([time / unit.size_ns for time in present], log=True, unit=f" {unit.name}", least_span=0.5), unit


def _steps(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between both ends."""
    rough = (high - low) / (MOST_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten between both ends, with their halves and fifths where there is room; steps for a short axis."""
    for factors in ((1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)):
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        values = [f * 10.0**e for e in range(first, last + 1) for f in factors if low <= f * 10.0**e <= high]
        if len(values) <= MOST_TICKS:
            return values if len(values) > 2 else _steps(low, high)
    return values[:: math.ceil(len(values) / MOST_TICKS)]


def _raised(exponent: int) -> str:
    return str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
