"""A comparison as a page: each change with its bounds beside the margin that decides."""

from kbench.compare import Comparison
from kbench.core.verdict import Answer, Verdict
from kbench.report.comparison import bounds_of, change_of, heading, summary_line, table_of, word_of
from kbench.report.html import page
from kbench.report.html.charts import Chart, ChartRow, Mark, Scale, Span
from kbench.report.html.page import Section

LEAST_REACH = 1.0
"""Least reach of the axis in percent: the gate's margin is always visible."""
MARGIN = "A case is slower if its whole interval lies right of the margin, and faster if it lies left."


def render_comparison(comparison: Comparison, margin: float, source: str) -> str:
    """Write a comparison as one HTML file; `margin` is a share. Raises MachineError."""
    title, *lead = heading(comparison).splitlines()
    return page.render(
        "compare",
        title=title,
        headline=f"{summary_line(comparison)}.",
        lead=lead,
        sections=[
            Section(heading="Change", about=MARGIN, parts=[("chart", _changes(comparison, 100 * margin))]),
            Section(heading="All cases", parts=[("table", table_of(comparison))]),
        ],
        source=source,
    )


def _changes(comparison: Comparison, margin: float) -> Chart:
    judged = [(case, case.verdict) for case in comparison.cases if case.verdict and case.verdict.ratio]
    rows, ends = [], [LEAST_REACH, 2 * margin]
    for case, verdict in judged:
        least, centre, most = _percents(verdict)
        ends += [abs(end) for end in (least, centre, most) if end is not None]
        bad = verdict.status in {Answer.SLOWER, Answer.NEW_FAIL}
        mine = margin if verdict.margin is None else 100 * verdict.margin
        rows.append(
            ChartRow(
                label=f"{word_of(case)}: {case.solution}",
                note=case.case,
                value=change_of(verdict),
                value_note=bounds_of(verdict),
                marks=(Mark(x=centre or 0.0, kind="failed" if bad else "point"),),
                spans=(
                    Span(low=-mine, high=mine, kind="margin", title=f"± {mine:.3g} %"),
                    Span(low=least, high=most, title=bounds_of(verdict)),
                ),
            )
        )
    return Chart(
        rows=rows,
        scale=Scale.of_changes(1.06 * max(ends)),
        axis="change of the time; right is slower",
        rule=(0.0, ""),
        key=(
            ("point", "change"),
            ("failed", "slower"),
            ("interval", f"{100 * comparison.confidence:.3g} % bounds"),
            ("margin", "margin: what a change must exceed"),
        ),
    )


def _percents(verdict: Verdict) -> list[float | None]:
    return [None if ratio is None else 100 * (ratio - 1) for ratio in (verdict.low, verdict.ratio, verdict.high)]
