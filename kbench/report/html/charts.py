"""Axes and shapes in their own units. A template places them in percent of a drawing, which fits any screen."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

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
    def half(self) -> float:
        """Half the width of the label."""
        return len(self.text) * LETTER / 2

    @property
    def centre(self) -> float:
        """Middle of the label: below its value, or as near to it as lies inside the axis in a wide font too."""
        return min(max(self.at, self.half), 100 - self.half)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A linear or logarithmic axis from `low` to `high`; `unit` is written behind each tick."""

    low: float
    high: float
    log: bool = False
    unit: str = ""
    whole: bool = False
    """Label whole numbers only, for counts."""

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
            tuple(Tick(at=self.at(value), text=f"{value:,.6g}{self.unit}") for value in values if value or not self.log)
            for values in choices
        ]
        fitting = [ticks for ticks in labelled if len(ticks) <= MOST_TICKS and not _touching(ticks, upright=upright)]
        chosen = next((ticks for ticks in fitting if len(ticks) > 2), max(fitting, key=len))
        return tuple(tick for tick in chosen if not self.whole or "." not in tick.text)


def around(values: Iterable[float | None], *, unit: str = "", least_span: float) -> Scale:
    """Make a logarithmic axis that holds all values with some room; `least_span` is a share of the middle."""
    present = [value for value in values if value is not None and math.isfinite(value) and value > 0]
    low, high = (min(present), max(present)) if present else (1.0, 1.0)
    middle, half = math.sqrt(low * high), max(math.sqrt(high / low), 1 + least_span / 2) ** (1 + 2 * ROOM)
    return Scale(low=middle / half, high=middle * half, log=True, unit=unit)


def _touching(ticks: tuple[Tick, ...], *, upright: bool) -> bool:
    """Return whether two labels touch; those beside each other are a letter apart, or they read as one."""
    if upright:
        return any(other.at - one.at < LINE for one, other in pairwise(ticks))
    return any(other.centre - other.half < one.centre + one.half + LETTER for one, other in pairwise(ticks))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A bar between two values, not drawn if one is not known."""

    low: float | None
    high: float | None
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A point at its values; `title` is shown on hovering."""

    x: float = 0.0
    y: float = 0.0
    span: Span | None = None
    """The interval that `y` lies in."""
    title: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRow:
    """One line of a chart: its name on the left, what is drawn, and its figure on the right."""

    label: str
    note: str = ""
    value: str = ""
    value_note: str = ""
    marks: Sequence[Mark] = ()
    span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Rows of speed-ups that share an axis; not drawn without rows."""

    rows: Sequence[ChartRow]
    scale: Scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A straight line between two points of a plane, with its name at its end; `kind` names its look."""

    x: tuple[float, float]
    y: tuple[float, float]
    kind: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """Points over two axes."""

    dots: Sequence[Mark]
    lines: Sequence[Line] = ()
    x: Scale
    y: Scale
    x_axis: str = ""
    y_axis: str = ""

    @property
    def gutter_rem(self) -> float:
        """Width of the column of labels beside the plane, which holds the longest one in a wide font too."""
        return round(0.6 + 0.5 * max((len(tick.text) for tick in self.y.ticks(upright=True)), default=0), 1)

    @property
    def labels(self) -> list[tuple[Mark, float]]:
        """Points with a label, and its height in percent: above the line that joins points, apart from the others."""
        named = sorted((dot for dot in self.dots if dot.label), key=lambda dot: -dot.y)
        return list(zip(named, spread_labels([self.y.down(dot.y) - LABEL_GAP for dot in named]), strict=True))


DASHES = 4
"""Chosen. Kinds of lines that the style sheet has for series: they cross, and one colour does not separate them."""


def over(
    series: Mapping[str, Sequence[Mark | None]],
    y: Scale,
    *,
    x_axis: str,
    y_axis: str,
    marks: Mapping[int, str] | None = None,
) -> Plane:
    """Draw series over the places 1, 2, ...: neighbours are joined, and the last point of each has the series' name.

    `marks` are vertical lines before places, with their labels.
    """
    places = max((len(row) for row in series.values()), default=1)
    dots, lines = list[Mark](), list[Line]()
    for number, (name, row) in enumerate(series.items()):
        known = [replace(mark, x=place) for place, mark in enumerate(row, start=1) if mark is not None]
        dots += [*known[:-1], *(replace(last, label=name) for last in known[-1:])]
        for mark in known:
            if (span := mark.span) is not None and span.low is not None and span.high is not None:
                lines.append(Line(x=(mark.x, mark.x), y=(span.low, span.high), kind="noise"))
        lines += [
            Line(x=(old.x, new.x), y=(old.y, new.y), kind=f"series dash-{number % DASHES}")
            for old, new in pairwise(known)
            if new.x == old.x + 1
        ]
    for place, text in (marks or {}).items():
        lines.append(Line(x=(place - 0.5, place - 0.5), y=(y.low, y.high), kind="rule", label=text))
    x = Scale(low=0.5, high=places + 0.5, whole=True)
    return Plane(dots=dots, lines=lines, x=x, y=y, x_axis=x_axis, y_axis=y_axis)


def spread_labels(heights: Sequence[float]) -> list[float]:
    """Move labels, the highest first, apart as little as possible until neighbours are LABEL_GAP apart."""
    placed = list(heights)
    for place in range(1, len(placed)):
        placed[place] = max(placed[place], placed[place - 1] + LABEL_GAP)
    lowest = 100 - LABEL_GAP / 2
    for place in reversed(range(len(placed))):
        placed[place] = min(placed[place], lowest)
        lowest = placed[place] - LABEL_GAP
    return [round(height, 2) for height in placed]
