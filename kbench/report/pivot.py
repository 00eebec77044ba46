"""The cases of a run against its solutions: which one is fastest where, and by how much."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kbench.report import units
from kbench.report.summary import CaseSummary, RunSummary
from kbench.report.table import Column, Table, one_line
from kbench.report.units import TimeUnit

REFERENCE = "reference"
FASTEST = "*"
"""Mark of the fastest solution of a case, where several were timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PivotCell:
    """A solution on a case: its result, and how many times as fast as the baseline it is."""

    case: CaseSummary
    speedup: float | None
    low: float | None
    high: float | None
    weak: bool
    fastest: bool

    def text(self, unit: TimeUnit, *, intervals: bool) -> str:
        """Write time and speed-up, `34.6  1.03×`, or the status of what has no time."""
        if self.case.time_ns is None:
            return self.case.status.value if self.case.passed else self.case.status.value.upper()
        time = units.time_cell(self.case.time_ns, unit, self.case.shown_half_width_ns)
        shown = units.speedup(self.speedup, self.low, self.high, alone=self.case.alone, weak=self.weak)
        between = f" ({units.interval(self.low, self.high, weak=self.weak)})" if intervals and self.low else ""
        return f"{time} {shown:>6}{between}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pivot:
    """The results of several solutions of a problem on several cases, by case and solution."""

    baseline: str
    """Denominator of the speed-ups: `reference`, or a solution."""
    unit: TimeUnit
    solutions: tuple[str, ...]
    cells: dict[str, dict[str, PivotCell]] = field(default_factory=dict)
    means: dict[str, str] = field(default_factory=dict)
    mean_name: str = ""

    @property
    def wins(self) -> Counter[str]:
        """In how many cases each solution is the fastest."""
        return Counter(name for row in self.cells.values() for name, cell in row.items() if cell.fastest)

    @property
    def title(self) -> str:
        """Line above the table: the unit, and the baseline."""
        if all(cell.case.time_ns is None for row in self.cells.values() for cell in row.values()):
            return ""
        over = "the reference" if self.baseline == REFERENCE else self.baseline
        mark = f"; {FASTEST} is the fastest of its case" if self.wins else ""
        return f"time in {self.unit.name}, and speed-up over {over}{mark}"

    def table(self, names: Sequence[str], *, intervals: bool = False, mark: str = FASTEST) -> Table:
        """Make a table of some of the solutions; cases without times that ended alike share a row."""
        rows: dict[tuple[str, ...], list[str]] = {}
        strong: set[tuple[int, int]] = set()
        pad = " " * len(mark) if self.wins else ""
        for case, found in self.cells.items():
            texts = [
                found[name].text(self.unit, intervals=intervals) if name in found else units.ABSENT for name in names
            ]
            fastest = [name in found and found[name].fastest for name in names]
            timed = any(name in found and found[name].case.time_ns is not None for name in names)
            marked = [text + (mark if is_best else pad) for text, is_best in zip(texts, fastest, strict=True)]
            strong |= {(len(rows), place) for place, is_best in enumerate(fastest, 1) if is_best}
            rows.setdefault((*marked, case) if timed else (*marked,), []).append(case)
        lines = [[_cases(cases, len(self.cells)), *texts[: len(names)]] for texts, cases in rows.items()]
        if self.means:
            lines.append([self.mean_name, *(self.means.get(name, units.ABSENT) + pad for name in names)])
        columns = [Column(title="case"), *(Column(title=one_line(name) + pad, right=True) for name in names)]
        return Table(columns=columns, rows=lines, strong=frozenset(strong))

    def text(self, *, intervals: bool = False, width: int | None = None) -> str:
        """Write the table; on a narrow terminal the solutions are spread over several ones."""
        left, blocks = [*self.solutions], []
        while left:
            count = len(left)
            while count > 1 and width is not None and _width(self.table(left[:count], intervals=intervals)) > width:
                count -= 1
            blocks.append(self.table(left[:count], intervals=intervals).text())
            left = left[count:]
        return "\n".join([*([self.title] if self.title else []), "\n\n".join(blocks)])

    def markdown(self) -> str:
        """Write the table for Markdown, with the fastest of each case in bold."""
        title = self.title.partition(";")[0]
        return "\n\n".join([*([title] if title else []), self.table(self.solutions, mark="").markdown()])

    def records(self) -> list[dict[str, Any]]:
        """Return a record for each case and solution, for JSON."""
        return [
            {
                "case": case,
                "solution": name,
                "status": cell.case.status.value,
                "time_ns": cell.case.time_ns,
                "baseline": self.baseline,
                "speedup": cell.speedup,
                "speedup_low": cell.low,
                "speedup_high": cell.high,
                "fastest": cell.fastest,
            }
            for case, row in self.cells.items()
            for name, cell in row.items()
        ]

    def sentence(self) -> str:
        """Say which solution is the fastest in how many cases: the answer that a run over a grid is for."""
        (best, count), *_ = self.wins.most_common() or [("", 0)]
        if not best:
            return ""
        text = f"{best} is the fastest in {count} of {len(self.cells)} cases"
        others = [f"{name} {mean}" for name, mean in self.means.items()]
        over = "the reference" if self.baseline == REFERENCE else self.baseline
        return f"{text}. {self.mean_name.capitalize()}s over {over}: {', '.join(others)}." if others else f"{text}."


def pivot_of(run: RunSummary) -> Pivot | None:
    """Return the pivot of a run of one problem with several solutions and cases; None for any other."""
    names = list(dict.fromkeys(case.case for case in run.cases))
    if len(names) < 2 or len(run.solutions) < 2 or len(run.problems) > 1:
        return None
    by_place = {(one.case, one.solution): one for one in run.cases}
    cells: dict[str, dict[str, PivotCell]] = {}
    for name in names:
        row = {solution: one for solution in run.solutions if (one := by_place.get((name, solution))) is not None}
        times = {one.solution: one.time_ns for one in row.values() if one.passed and one.time_ns is not None}
        fastest = min(times, key=lambda solution: times[solution]) if len(times) > 1 else ""
        base = by_place.get((name, run.baseline))
        cells[name] = {one.solution: _cell(one, base, run.baseline, one.solution == fastest) for one in row.values()}
    means = {
        solution: text
        for solution in run.solutions
        if (text := _mean(run, solution, by_place[names[0], run.baseline] if run.baseline else None)) is not None
    }
    return Pivot(
        baseline=run.baseline or REFERENCE,
        unit=units.unit_for(case.time_ns for case in run.cases),
        solutions=run.solutions,
        cells=cells,
        means=means,
        mean_name=run.mean_name,
    )


def _cell(one: CaseSummary, base: CaseSummary | None, baseline: str, fastest: bool) -> PivotCell:
    low, high = one.bounds
    if not baseline:
        return PivotCell(case=one, speedup=one.speedup, low=low, high=high, weak=one.weak, fastest=fastest)
    if base is None or not base.speedup or not one.speedup:
        return PivotCell(case=one, speedup=None, low=None, high=None, weak=one.weak, fastest=fastest)
    ratio = one.speedup / base.speedup
    half = _combined([_half(one), _half(base)])
    if one is base:
        half = 0.0
    ends = (None, None) if half is None else (ratio * math.exp(-half), ratio * math.exp(half))
    weak = one.weak or base.weak
    return PivotCell(case=one, speedup=ratio, low=ends[0], high=ends[1], weak=weak, fastest=fastest)


def _half(one: CaseSummary) -> float | None:
    """Return the half-width of a speed-up's logarithm; None where it is not known."""
    low, high = one.bounds
    return None if low is None or high is None or low <= 0 else math.log(high / low) / 2


def _combined(halves: Iterable[float | None]) -> float | None:
    known = [*halves]
    return None if None in known else math.hypot(*(half for half in known if half is not None))


def _mean(run: RunSummary, solution: str, base: CaseSummary | None) -> str | None:
    mean = run.speedup_of(solution)
    if base is None:
        return None if mean is None else run.shown_speedup_of(solution)
    other = run.speedup_of(base.solution)
    if mean is None or other is None:
        return None
    cases = [case for case in run.cases if case.solution in {solution, base.solution}]
    weak, alone = any(case.weak for case in cases), any(case.alone for case in cases)
    return units.speedup(mean / other, alone=alone, weak=weak)


def _cases(cases: Sequence[str], of: int) -> str:
    if len(cases) == 1:
        return one_line(cases[0])
    return f"all {of} cases" if len(cases) == of else f"{one_line(cases[0])} and {len(cases) - 1} more"


def _width(table: Table) -> int:
    return max(map(len, table.text().splitlines()))
