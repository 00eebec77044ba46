"""A saved run as the events that made it, so that reports render it as `run` did."""

import functools
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from kbench.core.errors import NothingSelectedError, ResultsError
from kbench.core.events import Judged
from kbench.core.explain import explain
from kbench.core.levels import Level
from kbench.core.model import Correctness, Environment, Failed, Finding, FindingKind, Outcome, Passed, ResultRow, Status
from kbench.core.values import worst
from kbench.engine.rows import ENVIRONMENT_COLUMNS
from kbench.report.summary import RunSummary, summarise
from kbench.storage import details as sidecar
from kbench.storage.details import CaseDetails, RunDetails
from kbench.storage.results import Run

MOST_PROBLEMS = 3


def recall(run: Run, cases: Sequence[str] = ()) -> RunSummary:
    """Rebuild the verdicts of a run by (problem, solution, case), with its details; `cases` are globs.

    Raises NothingSelectedError where no case matches, and ResultsError for a pass without its errors.
    """
    groups = run.by_case(cases)
    if not groups:
        raise NothingSelectedError(f"{run.name} has no such case", f"`kbench show {run.name}` shows all")
    first = run.rows[0]
    known = sidecar.read(run.path, first.started_utc) or RunDetails(started_utc=first.started_utc)
    judged = [_judged(run, rows, known.of(rows[0].solution, rows[0].case)) for rows in groups.values()]
    problems = list(dict.fromkeys(key[0] for key in groups))
    return RunSummary(
        problem=" and ".join(problems) if len(problems) <= MOST_PROBLEMS else f"{len(problems)} problems",
        cases=tuple(summarise(one) for one in judged),
        environment=Environment(**{name: getattr(first, name) for name in ("device", *ENVIRONMENT_COLUMNS)}),
        reference_s=known.reference_s,
        elapsed_s=known.elapsed_s,
        command=known.command,
    )


def details_of(summary: RunSummary) -> RunDetails:
    """Gather the details of a finished run beside its rows. Raises IndexError for a run without rows."""
    names = [field.name for field in fields(CaseDetails)]
    return RunDetails(
        started_utc=summary.rows[0].started_utc,
        command=summary.command,
        elapsed_s=summary.elapsed_s,
        reference_s=summary.reference_s,
        cases=tuple(CaseDetails(**{name: getattr(case, name) for name in names}) for case in summary.cases),
    )


def _judged(run: Run, rows: Sequence[ResultRow], known: CaseDetails | None) -> Judged:
    failing = [row for row in rows if row.status != Status.PASSED]
    row = failing[0] if failing else rows[0]
    lacks = tuple(row.lacks.split())
    if known is None:
        meanings = {code: explain(code) for code in row.findings.split() if code not in lacks}
        findings = [
            Finding(code=code, kind=FindingKind.NOTE, message=one.meaning if one else code)
            for code, one in meanings.items()
        ]
        known = CaseDetails(solution=row.solution, case=row.case, findings=tuple(findings))
    common: dict[str, Any] = {
        "findings": known.findings,
        "level": Level(row.level) if row.level else None,
        "lacks": lacks,
        "log": known.log,
    }
    errors = [found for one in (failing[:1] or rows) if (found := _correctness(one)) is not None]
    correctness = functools.reduce(worst, errors) if errors else None
    outcome: Outcome
    if failing:
        common |= {"reason": row.reason, "diagnosis": known.diagnosis}
        outcome = Failed(status=Status(row.status), correctness=correctness, **common)
    elif correctness is None:
        raise ResultsError(f"{run.path} says that {row.solution} passed, but not with which errors")
    else:
        outcome = Passed(
            correctness=correctness,
            timings=run.timings(rows),
            own_share=row.own_share,
            peak_bytes=row.peak_bytes,
            **common,
        )
    return Judged(
        solution=row.solution,
        case=row.case,
        outcome=outcome,
        rows=tuple(rows),
        stage_s=known.stage_s,
        weight=known.weight,
    )


def _correctness(row: ResultRow) -> Correctness | None:
    if row.max_abs_err is None or row.max_rel_err is None or row.tolerance_ratio is None:
        return None
    return Correctness(
        max_abs_err=row.max_abs_err,
        max_rel_err=row.max_rel_err,
        contract_ratio=row.tolerance_ratio,
        oracle_ratio=row.oracle_ratio,
        oracle_factor=4.0 if row.oracle_factor is None else row.oracle_factor,
        contract=row.contract,
    )
