"""The history of each case: every run of it in a folder, beside the noise of the baseline."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kbench.core.model import ResultRow, Status
from kbench.report import units
from kbench.report.html.axes import changes_around
from kbench.report.html.charts import Chart, ChartRow, Mark, Span, between
from kbench.storage.results import CaseKey, case_key

FEWEST, MOST = 3, 30
"""Least number of runs for a history, and the number of last runs that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """One case in one run."""

    run: str
    started_utc: str
    commit: str
    speedup: float
    interval: tuple[float, float] | None
    """Absent for a single process."""

    @property
    def half_width(self) -> float | None:
        """Half the width of its interval, as a share."""
        return None if self.interval is None else (self.interval[1] - self.interval[0]) / 2 / self.speedup

    def is_apart_from(self, other: "PastRun") -> bool:
        """Whether both intervals leave a gap; False if one is unknown."""
        if self.interval is None or other.interval is None:
            return False
        return self.interval[0] > other.interval[1] or self.interval[1] < other.interval[0]


def histories(base: Sequence[ResultRow], runs: Mapping[str, Sequence[ResultRow]]) -> list[tuple[str, Chart]]:
    """Draw each case of a baseline over the runs of a folder, by name, that measured it under the same conditions."""
    found = []
    for key, first in {case_key(row): row for row in base}.items():
        mine = _past("", base, key, first)
        told = [past for name, rows in runs.items() if (past := _past(name, rows, key, first)) is not None]
        told.sort(key=lambda past: past.started_utc)
        if mine is not None and len(told) >= FEWEST:
            found.append((" · ".join(key), _chart(mine, told[-MOST:])))
    return found


def _chart(base: PastRun, told: Sequence[PastRun]) -> Chart:
    def change(speedup: float) -> float:
        return 100 * (base.speedup / speedup - 1)

    scale = changes_around(change(end) for past in (base, *told) for end in (past.speedup, *(past.interval or ())))

    def span(past: PastRun, kind: str) -> tuple[Span, ...]:
        low, high = (None, None) if past.interval is None else map(change, reversed(past.interval))
        return between(low, high, scale, kind=kind)

    rows = []
    for before, past in zip((None, *told), told, strict=False):
        moved = before is not None and past.is_apart_from(before)
        at = f"at {past.commit[:10]}" if past.commit else ""
        rows.append(
            ChartRow(
                label=past.run,
                note=f"{past.started_utc[:16].replace('T', ' ')} {at}".strip(),
                value=units.change(change(past.speedup) / 100, past.half_width),
                value_note="changed here" if moved else "",
                marks=(Mark(x=scale.at(change(past.speedup)), kind="failed" if moved else "point"),),
                spans=(*span(base, "margin"), *span(past, "interval")),
            )
        )
    return Chart(
        rows=rows,
        scale=scale,
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
    first = mine[0]
    low, high = first.speedup_low, first.speedup_high
    return PastRun(
        run=run,
        started_utc=first.started_utc,
        commit=first.git_commit,
        speedup=statistics.geometric_mean(speedups),
        interval=None if low is None or high is None else (low, high),
    )


def _conditions(row: ResultRow) -> tuple[str, ...]:
    return row.gpu_name, row.overrides, row.mode, row.problem_sha256
