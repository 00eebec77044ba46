"""Plots of speed: speed-ups and their spread over processes, and times over cases."""

from collections.abc import Sequence

from kbench.report import units
from kbench.report.html import charts
from kbench.report.html.charts import Chart, ChartRow, Mark, Span, around
from kbench.report.pivot import Pivot
from kbench.report.summary import CaseSummary, RunSummary

MOST_ROWS = 60
"""Speed-ups that the chart shows, the largest."""


def speedups(run: RunSummary) -> Chart:
    """Draw speed-ups with their intervals and the point of every process, on a logarithmic axis that holds 1×, too."""
    timed = [(case, name) for case, name in zip(run.cases, run.names, strict=True) if case.passed and case.speedup]
    if len(timed) > MOST_ROWS:
        timed = sorted(timed, key=lambda pair: pair[0].speedup or 0.0, reverse=True)[:MOST_ROWS]
    rows = [
        ChartRow(
            label=name,
            note=where(case, run.cases),
            value=case.shown_speedup,
            value_note="one process" if case.alone else case.shown_interval.replace(units.ABSENT, ""),
            marks=[
                Mark(x=row.speedup, title=f"process {row.process}: {row.speedup:.4f}×")
                for row in case.rows
                if row.speedup is not None and row.time_ns_median is not None
            ],
            span=Span(low=case.speedup_low, high=case.speedup_high, title=case.shown_interval),
        )
        for case, name in timed
    ]
    ends = [mark.x for row in rows for mark in row.marks]
    ends += [end for row in rows if row.span for end in (row.span.low, row.span.high) if end is not None]
    return Chart(rows=rows, scale=around([1.0, *ends], unit="×", least_span=0.4))


def over_cases(pivot: Pivot, rate: str = "") -> charts.Plane:
    """Draw over the cases, in their order, the time of each solution, or the rate that it reaches, in its unit."""

    def value(one: CaseSummary | None) -> float | None:
        return None if one is None else pivot.rate_of(one) if rate else one.time_ns

    rows = {name: [value(row.get(name)) for row in pivot.cells.values()] for name in pivot.run.solutions}
    known = [number for row in rows.values() for number in row if number]
    unit = units.TimeUnit(rate, 1.0) if rate else units.unit_for(known)
    y = around([number / unit.size_ns for number in known], unit=f" {unit.name}", least_span=0.5)

    def seen(name: str, case: str, number: float | None) -> Mark | None:
        if not number:
            return None
        y = number / unit.size_ns
        return Mark(y=y, title=f"{name}, case {case}: {units.number(y)} {unit.name}")

    series = {
        name: [seen(name, case, number) for case, number in zip(pivot.cells, row, strict=True)]
        for name, row in rows.items()
    }
    what = "rate of a call" if rate else "time of a call"
    return charts.over(series, y, x_axis="case, by its place in the table", y_axis=what)


def where(case: CaseSummary, cases: Sequence[CaseSummary]) -> str:
    """Return the label, with the case if there are several."""
    return case.case if len({one.case for one in cases}) > 1 else ""
