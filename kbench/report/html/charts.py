"""Axes and shapes that a template draws. It places them in percent of a drawing, which fits any screen."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Self

from kbench.report import units

MOST_TICKS = 6
ROOM = 0.04
"""Share of an axis that is left free at either end."""
LETTER = 2.4
"""Width of a letter, in percent of an axis on a phone: 7 of 290 pixels."""
LINE = 8.0
"""Height of a label, in percent of an upright axis."""
LABEL_GAP = 5.5
"""Least distance of two labels beside points, in percent of a plane."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A label of an axis; `at` is in percent of its length."""

    at: float
    text: str

    @property
    def anchor(self) -> str:
        """SVG's `text-anchor`: a label that is centred where it stays inside the axis, in a wide font too."""
        half = len(self.text) * LETTER / 2
        return "start" if self.at < half else "end" if self.at > 100 - half else "middle"

    @property
    def extent(self) -> tuple[float, float]:
        """Begin and end of the label, in percent of the axis."""
        width = len(self.text) * LETTER
        begin = self.at - {"start": 0.0, "middle": width / 2, "end": width}[self.anchor]
        return begin, begin + width


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A linear or logarithmic axis from `low` to `high`; `unit` is written behind each tick."""

    low: float
    high: float
    log: bool = False
    unit: str = ""
    signed: bool = False
    whole: bool = False
    """Label whole numbers only, for counts."""

    @classmethod
    def of_changes(cls, reach: float) -> Self:
        """Make an axis of changes in percent, with no change in the middle."""
        return cls(low=-reach, high=reach, unit=" %", signed=True)

    def at(self, value: float) -> float:
        """Return the position of a value in percent of the axis; values beyond an end are placed there."""
        values = self.low, self.high, value
        low, high, value = (math.log10(max(one, 1e-300)) for one in values) if self.log else values
        return round(100 * min(max((value - low) / (high - low), 0.0), 1.0), 2)

    def width(self, low: float, high: float) -> float:
        """Return the width of a bar between two values, at least visible."""
        return round(max(self.at(high) - self.at(low), 0.15), 2)

    def down(self, value: float) -> float:
        """Return its position on an upright axis, counted from the top."""
        return round(100 - self.at(value), 2)

    def ticks(self, *, upright: bool = False) -> tuple[Tick, ...]:
        """Return at most six round values whose labels do not touch; on an upright axis they are one line high."""
        choices = chain(_decades(self.low, self.high) if self.log else (), _steps(self.low, self.high))
        labelled = [
            tuple(Tick(at=self.at(value), text=self._text(value)) for value in values if value or not self.log)
            for values in choices
        ]
        fitting = [ticks for ticks in labelled if len(ticks) <= MOST_TICKS and not _touching(ticks, upright=upright)]
        chosen = next((ticks for ticks in fitting if len(ticks) > 2), max(fitting, key=len))
        return tuple(tick for tick in chosen if not self.whole or "." not in tick.text)

    def _text(self, value: float) -> str:
        if self.log and not 1e-3 <= value < 1e5:
            exponent = math.floor(math.log10(value) + 1e-9)
            digit = round(value / 10**exponent)
            text = f"10{_raised(exponent)}" if digit == 1 else f"{digit}·10{_raised(exponent)}"
        else:
            text = f"{abs(round(value, 9)):,.9g}"
        sign = ("+" if value > 0 else "−" if value < 0 else "") if self.signed else "−" if value < 0 else ""
        return f"{sign}{text}{self.unit}"


def around(values: Iterable[float | None], *, log: bool = False, unit: str = "", least_span: float = 0.0) -> Scale:
    """Make an axis that holds all values with some room; `least_span` is a share of the middle, also for a log axis."""
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


def _touching(ticks: tuple[Tick, ...], *, upright: bool) -> bool:
    """Return whether two labels touch; those beside each other are a letter apart, or they read as one."""
    extents = [(tick.at, tick.at + LINE) if upright else tick.extent for tick in ticks]
    gap = 0.0 if upright else LETTER
    return any(one[1] + gap > other[0] for one, other in pairwise(extents))


def _steps(low: float, high: float) -> Iterator[list[float]]:
    """Multiples of 1, 2 or 5 times a power of ten between both ends; finer ones first."""
    power = math.floor(math.log10((high - low) / MOST_TICKS))
    for step in (factor * 10.0**exponent for exponent in range(power, power + 3) for factor in (1, 2, 5)):
        yield [number * step for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _decades(low: float, high: float) -> Iterator[list[float]]:
    """Powers of ten between both ends, with their halves and fifths at first; then every second, third and so on."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for factors in ((1, 2, 3, 5), (1, 2, 5), (1, 3)):
        yield [f * 10.0**e for e in range(first, last + 1) for f in factors if low <= f * 10.0**e <= high]
    for stride in range(1, last - first + 2):
        yield [10.0**e for e in range(first, last + 1, stride) if low <= 10.0**e <= high]


def _raised(exponent: int) -> str:
    return str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A point at a value; `kind` names its look in the style sheet, `title` is shown on hovering."""

    x: float
    kind: str = "point"
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A bar between two values, not drawn if one is not known."""

    low: float | None
    high: float | None
    kind: str = "interval"
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRow:
    """One line of a chart: its name on the left, what is drawn, and its figure on the right."""

    label: str
    note: str = ""
    value: str = ""
    value_note: str = ""
    marks: Sequence[Mark] = ()
    spans: Sequence[Span] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Rows that share an axis; not drawn without rows."""

    rows: Sequence[ChartRow]
    scale: Scale
    axis: str
    rule: tuple[float, str] | None = None
    """A value to compare with, such as 1×, and its name."""
    key: tuple[tuple[str, str], ...] = ()
    """Entries of the legend: look and meaning of marks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot(Mark):
    """A point of a plane, in percent; `y` counts from the top."""

    y: float
    label: str = ""
    label_y: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A straight line of a plane, in percent, with its name at its end."""

    x1: float
    y1: float
    x2: float
    y2: float
    kind: str
    label: str = ""


def level(y: float, x1: float = 0, x2: float = 100, *, kind: str, label: str = "") -> Line:
    """Draw a horizontal line."""
    return Line(x1=x1, y1=y, x2=x2, y2=y, kind=kind, label=label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """Points over two axes."""

    dots: Sequence[Dot]
    lines: Sequence[Line]
    bands: Sequence[Line] = ()
    """Bars between two corners, behind the lines."""
    x: Scale
    y: Scale
    x_axis: str
    y_axis: str
    key: tuple[tuple[str, str], ...] = ()

    @property
    def gutter_rem(self) -> float:
        """Width of the column of labels beside the plane, which holds the longest one in a wide font too."""
        return round(0.6 + 0.5 * max((len(tick.text) for tick in self.y.ticks(upright=True)), default=0), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A value of a series, with the interval that it lies in if that is known."""

    y: float
    low: float | None = None
    high: float | None = None
    title: str = ""


def over(
    series: Mapping[str, Sequence[Seen | None]],
    y: Scale,
    *,
    x_axis: str,
    y_axis: str,
    marks: Mapping[int, str] | None = None,
    key: tuple[tuple[str, str], ...] = (),
) -> Plane:
    """Draw series over the places 1, 2, ...: neighbours are joined, and the last point of each has the series' name.

    `marks` are vertical lines before places, with their labels.
    """
    x = Scale(low=0.5, high=max((len(row) for row in series.values()), default=1) + 0.5, whole=True)
    dots, lines, bands, ends = list[Dot](), list[Line](), list[Line](), dict[str, tuple[float, float]]()
    half = min(0.4 * (x.at(2) - x.at(1)), 1.5)
    for name, row in series.items():
        for place, (before, here) in enumerate(pairwise([None, *row]), start=1):
            if here is None:
                continue
            at = ends[name] = x.at(place), y.down(here.y)
            dots.append(Dot(x=at[0], y=at[1], title=here.title))
            if before is not None:
                lines.append(Line(x1=x.at(place - 1), y1=y.down(before.y), x2=at[0], y2=at[1], kind="series"))
            if here.low is not None and here.high is not None:
                top, bottom = y.down(here.high), y.down(here.low)
                bands.append(Line(x1=at[0] - half, y1=top, x2=at[0] + half, y2=max(bottom, top + 0.3), kind="interval"))
    above = [end[1] - LABEL_GAP for end in ends.values()]  # not on the line
    labels = zip(ends.items(), spread_labels(above), strict=True)
    dots += [Dot(x=end[0], y=end[1], label=name, label_y=label_y, title=name) for (name, end), label_y in labels]
    for place, text in (marks or {}).items():
        lines.append(Line(x1=x.at(place - 0.5), y1=100, x2=x.at(place - 0.5), y2=0, kind="rule", label=text))
    return Plane(dots=dots, lines=lines, bands=bands, x=x, y=y, x_axis=x_axis, y_axis=y_axis, key=key)


def spread_labels(heights: Sequence[float]) -> list[float]:
    """Move labels apart as little as possible until neighbours are LABEL_GAP apart."""
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    placed = list(heights)
    for before, index in pairwise(order):
        placed[index] = max(placed[index], placed[before] + LABEL_GAP)
    lowest = 100 - LABEL_GAP / 2
    for index in reversed(order):
        placed[index] = min(placed[index], lowest)
        lowest = placed[index] - LABEL_GAP
    return [round(height, 2) for height in placed]
