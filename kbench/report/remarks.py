"""Remarks of every report: findings, warnings, and what to do about them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kbench.core.explain import CAUSES, explain
from kbench.core.model import FindingKind
from kbench.report.summary import CaseSummary, RunSummary
from kbench.report.table import one_line
from kbench.storage.runfiles import LATEST

MOST_NAMED = 5
"""Solutions of a case that a line names, unless `-v` asks for all: a sweep has hundreds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One line for a reader; `kind` is `warning`, `hint` or a finding's."""

    kind: str
    text: str

    @property
    def line(self) -> str:
        """The remark as a line of text."""
        return f"{self.kind}: {self.text}"


def remarks(run: RunSummary, verbosity: int = 0) -> list[Remark]:
    """Return a line for each finding and flag, with all cases that it holds for, and each advice once at the end.

    Flags with the same advice share a line. What keeps a case from a level that is not required is told with `-v`.
    """
    found: dict[Remark, list[tuple[str, str]]] = {}
    advised: dict[str, list[str]] = {}
    for case, name in zip(run.cases, run.names, strict=True):
        for remark in _said_of(case, verbosity):
            found.setdefault(remark, []).append((name, case.case))
        told = {case.status.value, case.diagnosis.code if case.diagnosis is not None else ""}
        codes = [code for code in case.advice if code not in told]
        for code in (code for code in codes if CAUSES.get(code, frozenset()).isdisjoint(codes)):
            known = explain(code)
            named = advised.setdefault(known.fix, []) if known is not None else []
            named += [code] if code not in named else []
    most = MOST_NAMED if verbosity < 1 else None
    lines = [replace(remark, text=f"{_where(cases, most)}: {remark.text}") for remark, cases in found.items()]
    return lines + [
        Remark(kind="hint", text=f"{', '.join(codes)}: {fix.replace(LATEST, run.typed)}")
        for fix, codes in advised.items()
    ]


def remarks_of(case: CaseSummary) -> list[Remark]:
    """Return the lines on the findings and flags of a case."""
    where = _where([(case.solution, case.case)], MOST_NAMED)
    return [replace(remark, text=f"{where}: {remark.text}") for remark in _said_of(case, 0)]


def _said_of(case: CaseSummary, verbosity: int) -> list[Remark]:
    found = []
    for finding in case.findings:
        if finding.fatal and not case.passed and finding.kind is not FindingKind.LEVEL:
            continue  # the failure itself is this finding
        if finding.kind is FindingKind.LEVEL and not finding.fatal and verbosity < 1:
            continue
        found.append(Remark(kind=finding.kind.value, text=f"{one_line(finding.message)} [{finding.code}]"))
    by_advice: dict[str, list[str]] = {}
    for flag in case.warnings:
        known = explain(flag)
        by_advice.setdefault(known.fix if known is not None else flag, []).append(f"{flag_text(flag)} [{flag}]")
    return found + [Remark(kind="warning", text="; ".join(texts)) for texts in by_advice.values()]


def _where(cases: Sequence[tuple[str, str]], most: int | None) -> str:
    """Name solutions and cases: `eager and mine, case small; mine, case full`; not more than `most` of a case."""
    solutions: dict[str, list[str]] = {}
    for solution, case in cases:
        solutions.setdefault(case, []).append(solution)
    return "; ".join(f"{_listed(names, most)}, case {case}" for case, names in solutions.items())


def _listed(names: Sequence[str], most: int | None = None) -> str:
    """Write names as people do: `a`, `a and b`, `a, b and c`; where there are more than `most`, `a, b and 9 more`."""
    if most is not None and len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def flag_text(flag: str) -> str:
    """Return the meaning of a flag of a row."""
    known = explain(flag)
    return known.meaning if known is not None else flag.replace("_", " ")
