"""A comparison as a page: each change with its bounds, beside the margin that decides."""

from collections.abc import Sequence

from kbench.compare import ComparedCase, Comparison
from kbench.core.verdict import Answer
from kbench.report.comparison import bounds_of, change_of, heading, summary_line, table_of, word_of, worst_first
from kbench.report.html import page
from kbench.report.html.axes import changes
from kbench.report.html.charts import Chart, ChartRow, Mark, between
from kbench.report.html.run import Cell, table

LEAST_REACH = 1.0
"""Least range of the axis, in percent of change."""


def render_comparison(
    comparison: Comparison, margin: float, source: str, history: Sequence[tuple[str, Chart]] = ()
) -> str:
    """Write a comparison as one HTML file; `margin` is the share above which a case is slower.

    `history` has a chart for each case that a folder holds several runs of.

    Raises MachineError without jinja2.
    """
    shown = table_of(comparison)
    cells = [
        [
            Cell(title=column.title, text=text, kind="number" if column.right else "reason" if column.wraps else "")
            for column, text in zip(shown.columns, row, strict=True)
            if column.title
        ]
        for row in shown.rows
    ]
    sides, *rest = heading(comparison).splitlines()
    return page.render(
        "comparison.html",
        title=sides,
        stack=rest[0] if rest else "",
        constants=rest[1:],
        headline=f"{summary_line(comparison)}.",
        changes=_changes(comparison, 100 * margin),
        table=table(cells),
        history=history,
        source=source,
    )


def _changes(comparison: Comparison, margin: float) -> Chart | None:
    """Draw the change of the time of each case, in percent; right of the middle is slower."""
    known = [case for case in worst_first(comparison.cases) if case.verdict is not None and case.verdict.ratio]
    if not known:
        return None
    reached = [100 * (end - 1) for case in known for end in _ends(case) if end is not None]
    reach = 1.06 * max([LEAST_REACH, 2 * margin, *(abs(end) for end in reached)])
    scale = changes(reach)
    rows = []
    for case in known:
        low, centre, high = _ends(case)
        bad = case.verdict is not None and case.verdict.status in {Answer.SLOWER, Answer.NEW_FAIL}
        mine = margin if case.verdict is None or case.verdict.margin is None else 100 * case.verdict.margin
        least, most = (None if end is None else 100 * (end - 1) for end in (low, high))
        spans = (
            *between(-mine, mine, scale, kind="margin", title=f"± {mine:.3g} %"),
            *between(least, most, scale, title=bounds_of(case.verdict)),
        )
        rows.append(
            ChartRow(
                label=f"{word_of(case)}: {case.solution}",
                note=case.case,
                value=change_of(case.verdict),
                value_note=bounds_of(case.verdict),
                marks=(Mark(x=scale.at(100 * ((centre or 1) - 1)), kind="failed" if bad else "point"),),
                spans=spans,
            )
        )
    return Chart(
        rows=rows,
        scale=scale,
        axis="change of the time; right is slower",
        rule=(0.0, ""),
        key=(
            ("point", "change"),
            ("failed", "slower"),
            ("interval", f"{100 * comparison.confidence:.3g} % bounds"),
            ("margin", "margin: what a change must exceed"),
        ),
    )


def _ends(case: ComparedCase) -> tuple[float | None, float | None, float | None]:
    verdict = case.verdict
    return (None, None, None) if verdict is None else (verdict.low, verdict.ratio, verdict.high)
