"""A comparison as a page: each change with its bounds beside the margin that decides, and the history of each case."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kbench.compare import Comparison
from kbench.core.model import ResultRow, Status
from kbench.core.verdict import Answer, Verdict
from kbench.report import units
from kbench.report.comparison import bounds_of, change_of, heading, summary_line, table_of, word_of, worst_first
from kbench.report.html import page
from kbench.report.html.charts import Chart, ChartRow, Mark, Span, changes_around
from kbench.storage.results import CaseKey, case_key

FEWEST, MOST = 3, 30
"""Least number of runs for a history, and the number of last runs that are shown."""


def render_comparison(
    comparison: Comparison, margin: float, source: str, history: Sequence[tuple[str, Chart]] = ()
) -> str:
    """Write a comparison as one HTML file; `margin` is a share, `history` has charts of cases. Raises MachineError."""
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
    judged = [(case, case.verdict) for case in worst_first(comparison.cases) if case.verdict and case.verdict.ratio]
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
                marks=(Mark(x=centre or 0.0, kind="failed" if bad else "point"),),
                spans=(
                    Span(low=-mine, high=mine, kind="margin", title=f"± {mine:.3g} %"),
                    Span(low=least, high=most, title=bounds_of(verdict)),
                ),
            )
        )
    return Chart(
        rows=rows,
        scale=changes_around([2 * margin, *(end for _, verdict in judged for end in _percents(verdict))]),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """One case in one run: its first row, its speed-up, and the interval of that; None for a single process."""

    run: str
    row: ResultRow
    speedup: float
    interval: tuple[float, float] | None


def histories(base: Sequence[ResultRow], runs: Mapping[str, Sequence[ResultRow]]) -> list[tuple[str, Chart]]:
    """Draw each case of a baseline over the runs of a folder, by name, that measured it under the same conditions."""
    found = []
    for key, first in {case_key(row): row for row in base}.items():
        mine = _past("", base, key, first)
        told = [past for name, rows in runs.items() if (past := _past(name, rows, key, first)) is not None]
        told.sort(key=lambda past: past.row.started_utc)
        if mine is not None and len(told) >= FEWEST:
            found.append((" · ".join(key), _history(mine, told[-MOST:])))
    return found


def _history(base: PastRun, told: Sequence[PastRun]) -> Chart:
    def change(speedup: float) -> float:
        return 100 * (base.speedup / speedup - 1)

    def span(past: PastRun, kind: str) -> Span:
        low, high = (None, None) if past.interval is None else map(change, reversed(past.interval))
        return Span(low=low, high=high, kind=kind)

    rows = []
    before: tuple[float, float] | None = None
    for past in told:
        now, row = past.interval, past.row
        moved = bool(now and before and (now[0] > before[1] or now[1] < before[0]))
        at = f" at {row.git_commit[:10]}" if row.git_commit else ""
        rows.append(
            ChartRow(
                label=past.run,
                note=f"{row.started_utc[:16].replace('T', ' ')}{at}",
                value=units.change(
                    change(past.speedup) / 100, None if now is None else (now[1] - now[0]) / 2 / past.speedup
                ),
                value_note="changed here" if moved else "",
                marks=(Mark(x=change(past.speedup), kind="failed" if moved else "point"),),
                spans=(span(base, "margin"), span(past, "interval")),
            )
        )
        before = now
    return Chart(
        rows=rows,
        scale=changes_around(change(end) for past in (base, *told) for end in (past.speedup, *(past.interval or ()))),
        axis="time beside the baseline's; right is slower",
        rule=(0.0, ""),
        key=(
            ("point", "a run"),
            ("failed", "apart from the run before"),
            ("interval", "95 % interval"),
            ("margin", "noise of the baseline"),
        ),
    )


def _past(run: str, rows: Sequence[ResultRow], key: CaseKey, like: ResultRow) -> PastRun | None:
    """Fold a run's rows of one case; None if it failed, was not timed, or under other conditions."""
    mine = [row for row in rows if case_key(row) == key and _conditions(row) == _conditions(like)]
    speedups = [row.speedup for row in mine if row.status == Status.PASSED and row.speedup is not None]
    if not speedups or len(speedups) < len(mine):
        return None
    low, high = mine[0].speedup_low, mine[0].speedup_high
    interval = None if low is None or high is None else (low, high)
    return PastRun(run=run, row=mine[0], speedup=statistics.geometric_mean(speedups), interval=interval)


def _conditions(row: ResultRow) -> tuple[str, ...]:
    return row.gpu_name, row.overrides, row.mode, row.problem_sha256
