"""Shapes that a template draws: rows with marks on one axis, and points in a plane. Positions are in percent.

Widths in percent let one drawing fit a phone and a screen, with letters and points of the same size.
"""

from dataclasses import dataclass

from kbench.report.html.axes import Tick


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRow:
    """One line of a chart: its name on the left, what is drawn, and its figure on the right."""

    label: str
    note: str = ""
    """Small text below the label."""
    value: str = ""
    value_note: str = ""
    marks: tuple[Mark, ...] = ()
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Rows that share an axis. `rules` are values to compare with, such as 1×."""

    rows: tuple[ChartRow, ...]
    ticks: tuple[Tick, ...]
    axis: str
    """Title of the axis, with its unit."""
    rules: tuple[Tick, ...] = ()
    key: tuple[tuple[str, str], ...] = ()
    """Entries of the legend: look and meaning of marks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A point of a plane; `y` counts from the top."""

    x: float
    y: float
    kind: str = "point"
    label: str = ""
    label_y: float = 0.0
    """Position of the label, moved away from its neighbours."""
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A straight line of a plane, with its name at its end."""

    x1: float
    y1: float
    x2: float
    y2: float
    kind: str = "rule"
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """Points over two axes."""

    dots: tuple[Dot, ...]
    lines: tuple[Line, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    x_axis: str
    y_axis: str
    key: tuple[tuple[str, str], ...] = ()

    @property
    def gutter_rem(self) -> float:
        """Width of the column of labels beside the plane, which holds the longest one in a wide font too."""
        return round(0.6 + 0.5 * max((len(tick.text) for tick in self.y_ticks), default=0), 1)
