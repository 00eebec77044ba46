"""A comparison as a page: each change with its bounds, beside the margin that decides."""

from collections.abc import Sequence

from kbench.compare import Comparison
from kbench.core.verdict import Answer, Verdict
from kbench.report.comparison import bounds_of, change_of, heading, summary_line, table_of, word_of, worst_first
from kbench.report.html import page
from kbench.report.html.axes import changes_around
from kbench.report.html.charts import Chart, ChartRow, Mark, between


def render_comparison(
    comparison: Comparison, margin: float, source: str, history: Sequence[tuple[str, Chart]] = ()
) -> str:
    """Write a comparison as one HTML file; `margin` is the share above which a case is slower.

    `history` has a chart for each case that a folder holds several runs of.

    Raises MachineError without jinja2.
    """
    sides, *rest = heading(comparison).splitlines()
    return page.render(
        "comparison.html",
        title=sides,
        stack=rest[0] if rest else "",
        constants=rest[1:],
        headline=f"{summary_line(comparison)}.",
        changes=_changes(comparison, 100 * margin),
        table=table_of(comparison),
        history=history,
        source=source,
    )


def _changes(comparison: Comparison, margin: float) -> Chart:
    """Draw the change of the time of each case, in percent; right of the middle is slower."""
    judged = [(case, case.verdict) for case in worst_first(comparison.cases) if case.verdict and case.verdict.ratio]
    scale = changes_around([2 * margin, *(end for _, verdict in judged for end in _percents(verdict))])
    rows = []
    for case, verdict in judged:
        least, centre, most = _percents(verdict)
        bad = verdict.status in {Answer.SLOWER, Answer.NEW_FAIL}
        mine = margin if verdict.margin is None else 100 * verdict.margin
        rows.append(
            ChartRow(
                label=f"{word_of(case)}: {case.solution}",
                note=case.case,
                value=change_of(verdict),
                value_note=bounds_of(verdict),
                marks=(Mark(x=scale.at(centre or 0.0), kind="failed" if bad else "point"),),
                spans=(
                    *between(-mine, mine, scale, kind="margin", title=f"± {mine:.3g} %"),
                    *between(least, most, scale, title=bounds_of(verdict)),
                ),
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


def _percents(verdict: Verdict) -> list[float | None]:
    return [None if ratio is None else 100 * (ratio - 1) for ratio in (verdict.low, verdict.ratio, verdict.high)]
