"""A sweep as a page: shares of right and fast solutions, failures, and claims."""

from collections import Counter
from collections.abc import Mapping, Sequence

from kbench.core.verdict import NOT_EVALUATED
from kbench.engine.journal import Record
from kbench.engine.summary import TRIVIAL, Score, Share, fast_p, mean_speedup
from kbench.report.html import page
from kbench.report.html.charts import Chart, ChartRow, Mark, Scale, Span
from kbench.report.html.speed import speed_chart
from kbench.report.shown import MOST_CONSTANTS, Note, flag_text, rows_of, stack_line, warnings_of
from kbench.report.summary import CaseSummary, RunSummary
from kbench.report.swept import mean_in_words
from kbench.report.table import Table, table
from kbench.storage.results import CaseKey

MOST_ROWS = 60
"""Speed-ups that the chart shows, the largest; the table has all."""


def render_sweep(
    title: str, run: RunSummary, *, record: Record | None = None, notes: Sequence[Note] = (), source: str
) -> str:
    """Write a sweep as one HTML file; claimed speed-ups are in its journal. Raises MachineError."""
    rate, claims = None, dict[CaseKey, float | None]()
    if record is not None:
        rate = record.units_per_hour
        claims |= {CaseKey(line.problem, line.solution, line.case): line.claim for line in record.lines}
    timed = sorted((case for case in run.cases if case.passed and case.speedup), key=lambda one: -(one.speedup or 0))
    failed = Counter(case.status.value for case in run.cases if not case.passed).most_common()
    warned = Counter(code for case in run.cases for code in warnings_of(case))
    counted = [
        Note(kind="warning", text=f"{code}, of {count} of {len(run.cases)}: {flag_text(code)}")
        for code, count in warned.most_common()
    ]
    constants = list(dict.fromkeys(f"case {case.case}: {case.constants}" for case in run.cases if case.constants))
    return page.render(
        "sweep",
        title=title,
        headline=headline(run),
        lead=[
            stack_line(run.environment),
            "" if rate is None else f"{rate:.0f} processes an hour",
            *(constants if len(constants) <= MOST_CONSTANTS else ()),
        ],
        source=source,
        fast=_fast(fast_p(_scores(run))),
        speedups=_speeds(timed[:MOST_ROWS]),
        timed=len(timed),
        most_rows=MOST_ROWS,
        failed=failed,
        notes=[*notes, *counted],
        verdicts=_table(run, claims),
    )


def _scores(run: RunSummary) -> list[Score]:
    return [
        Score(
            passed=case.passed,
            speedup=case.speedup if case.passed and not case.weak else None,
            trivial=case.passed and TRIVIAL in {*case.flags, *(finding.code for finding in case.findings)},
            weight=case.weight,
        )
        for case in run.cases
        if case.status not in NOT_EVALUATED
    ]


def headline(run: RunSummary) -> str:
    """Write the result of the sweep in one sentence."""
    scores = _scores(run)
    mean, trivial = mean_speedup(scores), sum(one.trivial for one in scores)
    text = f"{sum(case.passed for case in run.cases)} of {len(run.cases)} pass"
    if trivial:
        text += f", {trivial} of them a task that wrong answers pass too"
    return f"{text}." if mean is None else f"{text}. Speed-up: {mean_in_words(mean)}."


def _fast(shares: Mapping[float, Share]) -> Chart:
    rows = [
        ChartRow(
            label="right" if threshold == 0 else f"right, above {threshold:g}×",
            note=f"p = {threshold:g}",
            value=f"{100 * share.share:.0f} %",
            value_note=f"{share.hits} of {share.of}",
            marks=(Mark(x=100 * share.share),),
            span=Span(low=100 * share.low, high=100 * share.high),
        )
        for threshold, share in shares.items()
    ]
    scale, key = Scale(low=0.0, high=104.0, unit=" %"), (("point", "share"), ("interval", "95 % band"))
    return Chart(rows=rows, scale=scale, axis="share of the judged solutions", key=key)


def _speeds(timed: Sequence[CaseSummary]) -> Chart:
    several = len({case.solution for case in timed}) > 1
    return speed_chart(
        [
            ChartRow(
                label=case.problem or case.solution,
                note=case.solution if several and case.problem else "",
                value=case.shown_speedup,
                marks=(Mark(x=case.speedup or 1.0),),
                span=Span(low=case.speedup_low, high=case.speedup_high),
            )
            for case in timed
        ]
    )


def _table(run: RunSummary, claims: Mapping[CaseKey, float | None]) -> Table:
    several = len({case.case for case in run.cases}) > 1
    cells = [
        {
            **row,
            "case": case.case if several else "",
            "constants": case.constants,
            ">claimed": "" if (claim := claims.get(case.key)) is None else f"{claim:g}×",
            "reason": case.reason,
            "warnings": ", ".join(warnings_of(case)),
        }
        for row, case in zip(rows_of(run, walls_apart=False), run.cases, strict=True)
    ]
    return table(cells, wraps={"reason"})
