"""A finished sweep or a published table as the lines of its page."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kbench.core.model import Status
from kbench.core.verdict import NOT_EVALUATED
from kbench.engine.journal import Record
from kbench.engine.summary import TRIVIAL, Mean, Score, Share, fast_p, mean_speedup
from kbench.report import units
from kbench.report.shown import Remark, flag_text
from kbench.report.summary import HOST_BOUND, RunSummary
from kbench.storage.published import PublishedRow

NOT_JUDGED = {*(status.value for status in NOT_EVALUATED), "error", "no_row"}
"""Statuses that are not verdicts; the last two occur in published tables."""
OF_A_CASE = (
    *("solution", "case", "constants", "reason", "lacks", "percent_of_limit"),
    *("speedup", "speedup_low", "speedup_high", "shown_speedup", "weight", "weak"),
)
OF_A_PUBLISHED_ROW = ("status", "reason", "level", "speedup", "speedup_low", "speedup_high")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptLine:
    """One verdict."""

    problem: str
    solution: str
    case: str
    status: str
    reason: str
    level: str
    lacks: tuple[str, ...]
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    shown_speedup: str
    claim: float | None = None
    percent_of_limit: float | None = None
    warnings: tuple[str, ...] = ()
    trivial: bool = False
    """Whether it passes a task that wrong answers pass as well."""
    constants: str = ""
    weight: float = 1.0
    weak: bool = False
    """True if the judge's clock does not confirm its time, which fast_p and the mean then leave out."""

    @property
    def name(self) -> str:
        """Its unique name."""
        return self.problem if not self.solution else f"{self.problem} · {self.solution}"

    @property
    def passed(self) -> bool:
        """Whether every check held."""
        return self.status == Status.PASSED.value


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptTable:
    """All verdicts of a sweep."""

    title: str
    stack: str
    lines: tuple[SweptLine, ...]
    units_per_hour: float | None = None
    stage_s: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[Remark, ...] = ()

    @property
    def statuses(self) -> dict[str, int]:
        """Number of verdicts by status, most frequent first."""
        return dict(Counter(line.status for line in self.lines).most_common())

    @property
    def fast(self) -> dict[float, Share]:
        """fast_p by threshold: the share of judged solutions that are right and faster than p times the reference."""
        return fast_p(self._scores)

    @property
    def mean(self) -> Mean | None:
        """The geometric mean of the confirmed speed-ups of those that pass."""
        return mean_speedup(self._scores)

    @property
    def trivial(self) -> int:
        """Number of solutions that pass a task trivially; fast_p and the mean leave them out."""
        return sum(one.trivial for one in self._scores)

    @property
    def _scores(self) -> list[Score]:
        judged = [line for line in self.lines if line.status not in NOT_JUDGED]
        return [
            Score(
                passed=x.passed,
                speedup=x.speedup if x.passed and not x.weak else None,
                trivial=x.trivial,
                weight=x.weight,
            )
            for x in judged
        ]


def of_run(title: str, run: RunSummary, stack: str, journal: Record | None, notes: Sequence[Remark]) -> SweptTable:
    """Make the table of a results file; claims and rates are in its journal."""
    told = journal.lines if journal is not None else ()
    claims = {(line.problem, line.solution, line.case): line.claim for line in told}
    lines = [
        SweptLine(
            problem=case.rows[0].problem,
            status=case.status.value,
            level=case.level.value if case.level is not None else "",
            claim=claims.get((case.rows[0].problem, case.solution, case.case)),
            warnings=tuple(code for code in case.advice if code != case.status.value),
            trivial=case.passed and TRIVIAL in {*case.flags, *(finding.code for finding in case.findings)},
            **{name: getattr(case, name) for name in OF_A_CASE},
        )
        for case in run.cases
    ]
    stage_s: Counter[str] = Counter()
    for results in journal.results.values() if journal is not None else ():
        for result in results:
            stage_s.update(result.stage_s)
    return SweptTable(
        title=title,
        stack=stack,
        lines=tuple(lines),
        units_per_hour=journal.units_per_hour if journal is not None else None,
        stage_s=dict(stage_s.most_common()),
        notes=(*notes, *_counted(lines)),
    )


def of_published(title: str, rows: Sequence[PublishedRow]) -> SweptTable:
    """Make the table of a published one. It has no rate: its seconds are those of lanes, side by side."""
    lines = []
    for row in rows:
        flags = row.flags.split()
        alone, weak = "one_process" in flags, row.attestation == "weak"
        lines.append(
            SweptLine(
                problem=f"{row.task} {row.name}".strip(),
                solution="",
                case="",
                lacks=tuple(row.lacks.split()),
                shown_speedup=units.speedup(row.speedup, row.speedup_low, row.speedup_high, alone=alone, weak=weak),
                claim=row.claimed,
                weak=weak,
                warnings=tuple(flag for flag in flags if flag != HOST_BOUND),
                trivial=row.status == Status.PASSED.value and TRIVIAL in flags,
                **{name: getattr(row, name) for name in OF_A_PUBLISHED_ROW},
            )
        )
    devices = ", ".join(dict.fromkeys(row.gpu for row in rows if row.gpu))
    commits = ", ".join(dict.fromkeys(row.kbench[:12] for row in rows if row.kbench))
    return SweptTable(
        title=title,
        stack=" · ".join(part for part in (devices, f"kbench {commits}" if commits else "") if part),
        lines=tuple(lines),
        notes=tuple(_counted(lines)),
    )


def _counted(lines: Sequence[SweptLine]) -> list[Remark]:
    counts = Counter(code for line in lines for code in line.warnings)
    return [
        Remark(kind="warning", text=f"{code}, of {count} of {len(lines)}: {flag_text(code)}")
        for code, count in counts.most_common()
    ]
