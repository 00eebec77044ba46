"""The cases of a run against its solutions: which one is fastest where, and by how much."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kbench.report import units
from kbench.report.summary import ONE_PROCESS, CaseSummary, RunSummary
from kbench.report.table import Column, Table, one_line
from kbench.report.units import TimeUnit

REFERENCE = "the reference"
FASTEST = "*"
"""Mark of the solution that is clearly the fastest of a case."""
RATES = {"GB/s": 1.0, "TB/s": 1e3, "TFLOP/s": 1e3}
"""Units of a rate, in billions per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pivot:
    """The results of several solutions of a problem on several cases."""

    run: RunSummary
    """The run, with speed-ups over the baseline in place of the reference."""
    cells: dict[str, dict[str, CaseSummary]]
    """Results by case and solution."""
    fastest: dict[str, str]
    """The solution of a case whose speed-up lies above those of all others, intervals included."""
    unit: TimeUnit
    rate: str
    """Unit of the rate that bounds every case; empty if cases differ or no limit is known."""
    intervals: bool = False
    """True to write the interval of each speed-up."""

    @property
    def baseline(self) -> str:
        """Denominator of the speed-ups: a solution, or the reference."""
        return self.run.baseline or REFERENCE

    @property
    def wins(self) -> Counter[str]:
        """Number of cases in which each solution is the fastest."""
        return Counter(self.fastest.values())

    @property
    def title(self) -> str:
        """Line above the table: the unit, and the baseline."""
        if not self.run.timed:
            return ""
        rate = f" {self.rate}," if self.rate else ""
        mark = f"; {FASTEST} is the fastest of its case" if self.wins else ""
        return f"time in {self.unit.name},{rate} and speed-up over {self.baseline}{mark}"

    def table(self, names: Sequence[str] = ()) -> Table:
        """Make a table of all or some of the solutions; cases without times that ended alike share a row."""
        names = names or self.run.solutions
        rows: dict[tuple[str, ...], list[str]] = {}
        pad = " " if self.wins else ""
        for case, found in self.cells.items():
            best = self.fastest.get(case)
            texts = [self._text(found[name]) if name in found else units.ABSENT for name in names]
            marked = [text + (FASTEST if name == best else pad) for name, text in zip(names, texts, strict=True)]
            is_timed = any(name in found and found[name].time_ns is not None for name in names)
            rows.setdefault((*marked, case) if is_timed else (*marked,), []).append(case)
        lines = [[_cases(cases, len(self.cells)), *texts[: len(names)]] for texts, cases in rows.items()]
        means = [self.run.shown_speedup_of(name) for name in names]
        if set(means) != {units.ABSENT} and any(len(self.run.counted(name)) > 1 for name in names):
            lines.append([self.run.mean_name, *(mean + pad for mean in means)])
        columns = [Column(title="case"), *(Column(title=one_line(name) + pad, right=True) for name in names)]
        return Table(columns=columns, rows=lines, title=self.title)

    def _text(self, case: CaseSummary) -> str:
        """Write time, rate and speed-up, `34.6  812  1.03×`, or the status of what has no time."""
        if case.time_ns is None:
            return case.status.value if case.passed else case.status.value.upper()
        time = units.time_cell(case.time_ns, self.unit, case.shown_half_width_ns)
        between = f" ({case.shown_interval})" if self.intervals and case.speedup_low else ""
        reached = self.rate_of(case)
        rate = f" {units.number(reached):>5}" if reached else ""
        return f"{time}{rate} {case.shown_speedup:>6}{between}"

    def rate_of(self, case: CaseSummary) -> float | None:
        """Return the rate that a result reaches, in the unit `rate`; None where there is none."""
        return case.work / case.time_ns / RATES[self.rate] if self.rate and case.work and case.time_ns else None

    def text(self, *, width: int | None = None) -> str:
        """Write the table; on a narrow terminal the solutions are spread over several ones."""
        left, blocks = [*self.run.solutions], []
        while left:
            for count in range(len(left), 0, -1):
                text = replace(self.table(left[:count]), title="").text()
                if width is None or max(map(len, text.splitlines())) <= width:
                    break
            blocks.append(text)
            left = left[count:]
        return "\n".join([*filter(None, [self.title]), "\n\n".join(blocks)])

    def markdown(self) -> str:
        """Write the table for Markdown."""
        return self.table().markdown()

    def sentence(self) -> str:
        """Say which solution is the fastest in how many cases: the answer of a run over a grid; empty for one alone."""
        if len({case.solution for case in self.run.timed}) < 2:
            return ""
        text = "No solution is clearly the fastest of a case."
        for best, count in self.wins.most_common(1):
            text = f"{best} is the fastest in {count} of {len(self.cells)} cases."
        means = {name: self.run.shown_speedup_of(name) for name in self.run.solutions}
        known = ", ".join(f"{name} {mean}" for name, mean in means.items() if mean != units.ABSENT)
        mean = self.run.mean_name.capitalize().replace("mean", "means")
        return f"{text} {mean} over {self.baseline}: {known}." if known else text


def pivot_of(run: RunSummary, *, intervals: bool = False) -> Pivot | None:
    """Return the pivot of a run of one problem with several solutions and cases; None for any other."""
    names = list(dict.fromkeys(case.case for case in run.cases))
    if len(names) < 2 or len(run.solutions) < 2 or len(run.problems) > 1:
        return None
    fastest = {name: best for name in names if (best := _fastest([one for one in run.cases if one.case == name]))}
    if run.baseline:
        bases = {case.case: case for case in run.cases if case.solution == run.baseline}
        run = replace(run, cases=tuple(_relative(case, bases.get(case.case)) for case in run.cases))
    cells = {name: {case.solution: case for case in run.cases if case.case == name} for name in names}
    unit = units.unit_for(case.time_ns for case in run.cases)
    return Pivot(run=run, cells=cells, fastest=fastest, unit=unit, rate=_rate(run.timed), intervals=intervals)


def _fastest(row: Sequence[CaseSummary]) -> str:
    """Return the solution whose speed-up lies above those of all others, intervals included; empty if none does."""
    ends = {one.solution: one.bounds for one in row if one.passed and one.speedup is not None}
    for solution, (low, _) in ends.items():
        highs = [high for other, (_, high) in ends.items() if other != solution]
        if low is not None and highs and all(high is not None and high < low for high in highs):
            return solution
    return ""


def _rate(timed: Sequence[CaseSummary]) -> str:
    """Return the unit of the rate that bounds all of these results; empty if there is none."""
    bounds = {case.rows[0].limit_rate for case in timed}
    if bounds == {"memory"}:
        return "TB/s" if max(case.work / (case.time_ns or 1.0) for case in timed) >= RATES["TB/s"] else "GB/s"
    return "TFLOP/s" if bounds and not bounds & {"memory", ""} else ""


def _relative(one: CaseSummary, base: CaseSummary | None) -> CaseSummary:
    """Return a result with its speed-up over that of a baseline on the same case; both intervals count."""
    if base is None or not base.speedup or not one.speedup:
        return replace(one, speedup=None, speedup_low=None, speedup_high=None, noise=None)
    ratio, low, high = one.speedup / base.speedup, None, None
    halves = [0.0] if one is base else [_half(one), _half(base)]
    known = [half for half in halves if half is not None]
    if len(known) == len(halves):
        low, high = ratio * math.exp(-math.hypot(*known)), ratio * math.exp(math.hypot(*known))
    return replace(
        one,
        speedup=ratio,
        speedup_low=low,
        speedup_high=high,
        noise=None,
        attestation="weak" if base.weak else one.attestation,
        flags=(*one.flags, ONE_PROCESS) if base.alone and not one.alone else one.flags,
    )


def _half(one: CaseSummary) -> float | None:
    """Return the half-width of a speed-up's logarithm; None where it is not known."""
    low, high = one.bounds
    return None if low is None or high is None or low <= 0 else math.log(high / low) / 2


def _cases(cases: Sequence[str], of: int) -> str:
    if len(cases) == 1:
        return one_line(cases[0])
    return f"all {of} cases" if len(cases) == of else f"{one_line(cases[0])} and {len(cases) - 1} more"
