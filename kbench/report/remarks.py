"""Remarks of every report: findings, warnings, and what to do about them."""

from dataclasses import dataclass

from kbench.core.explain import explain
from kbench.core.model import FindingKind
from kbench.report.summary import CaseSummary, RunSummary
from kbench.report.table import one_line


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
    """Return a line for each finding and flag of a case, and each code's advice once at the end.

    What keeps a case from a level that is not required stands in the table; with `-v` it is told in full.
    """
    found, codes = [], []
    for case in run.cases:
        found += remarks_of(case, verbosity)
        told = {case.status.value, case.diagnosis.code if case.diagnosis is not None else ""}
        codes += [code for code in case.advice if code not in told]
    advised = [(code, known) for code in dict.fromkeys(codes) if (known := explain(code)) is not None]
    return found + [Remark(kind="hint", text=f"{code}: {known.fix}") for code, known in advised]


def remarks_of(case: CaseSummary, verbosity: int = 0) -> list[Remark]:
    """Return a line for each finding and flag of a case."""
    found = []
    where = f"{case.solution}, case {case.case}"
    for finding in case.findings:
        if finding.fatal and not case.passed and finding.kind is not FindingKind.LEVEL:
            continue  # the failure itself is this finding
        if finding.kind is FindingKind.LEVEL and not finding.fatal and verbosity < 1:
            continue
        found.append(Remark(kind=finding.kind.value, text=f"{where}: {one_line(finding.message)} [{finding.code}]"))
    return found + [Remark(kind="warning", text=f"{where}: {flag_text(flag)} [{flag}]") for flag in case.warnings]


def flag_text(flag: str) -> str:
    """Return the meaning of a flag of a row."""
    known = explain(flag)
    return known.meaning if known is not None else flag.replace("_", " ")
