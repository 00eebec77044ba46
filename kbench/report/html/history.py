"""The history of cases as a page: what changed, and a chart for each case."""

import math
import statistics
from collections.abc import Sequence

from kbench.core.verdict import Answer, Verdict
from kbench.history import CREEP, Point, Series
from kbench.report import units
from kbench.report.comparison import WORDS, bounds_of, change_of
from kbench.report.html import charts, page
from kbench.report.html.charts import Mark, Plane, Span
from kbench.report.shown import Note
from kbench.report.table import table

NEW_CONDITIONS = "new conditions"


def render_history(title: str, found: Sequence[Series], *, notes: Sequence[Note] = (), source: str) -> str:
    """Write histories as one HTML file. Raises MachineError without jinja2."""
    groups: dict[str, list[Series]] = {}
    for one in found:
        groups.setdefault(f"{one.key.problem}, case {one.key.case} · {one.gpu_name}", []).append(one)
    rows, numbers = _changes([one for group in groups.values() for one in group])
    times = sorted(point.started_utc for one in found for point in one.points)
    slower = sum(row["verdict"] in {"SLOWER", "CREEP", "NEW FAIL"} for row in rows)
    return page.render(
        "history",
        title=title,
        headline=f"Changes for the worse: {slower}, others: {len(rows) - slower}." if rows else "Nothing changed.",
        lead=[f"{times[0][:10]} to {times[-1][:10]}"] if times else [],
        source=source,
        changes=table(rows, wraps={"what changed"}),
        creep=f"{100 * CREEP:g} %",
        charts=[(name, _chart(group, numbers)) for name, group in groups.items()],
        notes=notes,
    )


def _changes(found: Sequence[Series]) -> tuple[list[dict[str, str]], dict[tuple[int, int], str]]:
    """Return the rows of the table, and the number of the row of each series and place."""
    rows: list[dict[str, str]] = []
    numbers: dict[tuple[int, int], str] = {}

    def row(one: Series, word: str, verdict: Verdict, at: Point, what: str) -> None:
        name = "/".join(one.key)
        cells = {">row": str(len(rows) + 1), "verdict": word, "case": name, ">change": change_of(verdict)}
        cells[">bounds"] = bounds_of(verdict)
        rows.append(cells | {"commit": at.commit, "started": at.started_utc[:10], "what changed": what})

    for one in found:
        for step in one.steps:
            word = NEW_CONDITIONS if step.verdict.status is Answer.NOT_COMPARABLE else WORDS[step.verdict.status]
            what = step.cause if step.confirmed else f"{step.cause}; the last run alone shows it"
            row(one, word, step.verdict, one.points[step.at], what)
            numbers[id(one), step.at] = str(len(rows))
        if one.creep is not None:
            start = one.since_step[0]
            what = f"little by little since {start.started_utc[:10]}, commit {start.commit or '?'}"
            row(one, "CREEP", one.creep, one.points[-1], what)
    return rows, numbers


def _chart(group: Sequence[Series], numbers: dict[tuple[int, int], str]) -> Plane:
    """Draw the solutions of a case over their runs; each run has its place, also where it lacks a solution."""
    runs = sorted(
        {(point.started_utc, point.run): None for one in group for point in one.points}, key=lambda run: run[0]
    )
    places = {run: number for number, run in enumerate(runs, start=1)}
    series, marks = dict[str, list[Mark | None]](), dict[int, str]()
    for one in group:
        seen = {places[point.started_utc, point.run]: _seen(point) for point in one.points}
        series[one.key.solution] = [seen.get(place) for place in places.values()]
        for step in one.steps:
            point = one.points[step.at]
            marks.setdefault(places[point.started_utc, point.run], numbers.get((id(one), step.at), ""))
    shown = [one for row in series.values() for one in row if one is not None]
    ends = [end for one in shown for end in (one.y, *((one.span.low, one.span.high) if one.span else ()))]
    y = charts.around(ends, unit="×", least_span=0.1)
    y_axis = "times as fast as the reference; upright: the 95 % interval of a run"
    return charts.over(series, y, x_axis="run, oldest first", y_axis=y_axis, marks=marks)


def _seen(point: Point) -> Mark | None:
    """Return the speed-up of a run and its interval."""
    ratios, found = point.measurement.log_ratios, point.side.speedup
    if not ratios:
        return None
    centre = math.exp(-statistics.fmean(ratios))
    time = units.duration(point.side.time_ns)
    title = f"{point.started_utc[:16]}, commit {point.commit or '?'}: {centre:.4g}×, {time}"
    return Mark(y=centre, title=title, span=None if found is None else Span(low=found.low, high=found.high))
