"""Shapes that a template draws: rows with marks on one axis, and points in a plane. Positions are in percent.

Widths in percent let one drawing fit a phone and a screen, with letters and points of the same size.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kbench.report.html.axes import Scale, Tick


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A point; `kind` names its look in the style sheet, `title` is shown on hovering."""

    x: float
    kind: str = "point"
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A bar from one place to another; the kind `margin` is as high as its row."""

    low: float
    high: float
    kind: str = "interval"
    title: str = ""

    @property
    def width(self) -> float:
        """Its width, at least visible."""
        return round(max(self.high - self.low, 0.15), 2)


def between(
    low: float | None, high: float | None, scale: Scale, *, kind: str = "interval", title: str = ""
) -> tuple[Span, ...]:
    """Draw an interval; nothing if an end is not known."""
    if low is None or high is None:
        return ()
    return (Span(low=scale.at(low), high=scale.at(high), kind=kind, title=title),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRow:
    """One line of a chart: its name on the left, what is drawn, and its figure on the right."""

    label: str
    note: str = ""
    """Small text below the label."""
    value: str = ""
    value_note: str = ""
    marks: Sequence[Mark] = ()
    spans: Sequence[Span] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Rows that share an axis; without rows there is nothing to show, and it counts as false."""

    rows: Sequence[ChartRow]
    scale: Scale
    axis: str
    """Title of the axis, with its unit."""
    rule: tuple[float, str] | None = None
    """A value to compare with, such as 1×, and its name."""
    key: tuple[tuple[str, str], ...] = ()
    """Entries of the legend: look and meaning of marks."""

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def rules(self) -> tuple[Tick, ...]:
        """The value that all rows are compared with, as a line."""
        return () if self.rule is None else (Tick(at=self.scale.at(self.rule[0]), text=self.rule[1]),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot(Mark):
    """A point of a plane; `y` counts from the top."""

    y: float
    label: str = ""
    label_y: float = 0.0
    """Position of the label, moved away from its neighbours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A straight line of a plane, with its name at its end."""

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
    x: Scale
    y: Scale
    x_axis: str
    y_axis: str
    key: tuple[tuple[str, str], ...] = ()

    @property
    def gutter_rem(self) -> float:
        """Width of the column of labels beside the plane, which holds the longest one in a wide font too."""
        return round(0.6 + 0.5 * max((len(tick.text) for tick in self.y.ticks(upright=True)), default=0), 1)
