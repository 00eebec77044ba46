"""A run as CSV with one row per solution and case: the figures of the text report, to the digit."""

from typing import Any

from kbench.report import csvout, units
from kbench.report.remarks import remarks_of
from kbench.report.shown import shown, unit_of
from kbench.report.summary import CaseSummary, RunSummary
from kbench.report.units import TimeUnit


def render_summary(run: RunSummary) -> str:
    """Write one row per solution and case. Times are in the unit that `unit` names; absent figures are empty."""
    unit = unit_of(run.cases)
    return csvout.render_lines([_line(case, unit, run.problem) for case in run.cases])


def _line(case: CaseSummary, unit: TimeUnit, problem: str) -> dict[str, Any]:
    cells = shown(case, unit)
    low, _, high = case.shown_interval.partition(" … ")
    return {
        "problem": case.rows[0].problem if case.rows else problem,
        "solution": case.solution,
        "case": case.case,
        "constants": case.constants,
        "verdict": case.status.value,
        "reason": case.reason,
        "level": case.level or "",
        "lacks": " ".join(case.lacks),
        "unit": unit.name,
        "time": _plain(cells.time),
        "wall": _plain(cells.wall),
        "reference": _plain(cells.reference),
        "reference_wall": _plain(cells.reference_wall),
        "speedup": _plain(case.shown_speedup),
        "speedup_low": _plain(low),
        "speedup_high": _plain(high),
        "percent_of_limit": _plain(cells.of_limit),
        "worst_error": _plain(cells.worst_error),
        "attestation": case.attestation,
        "processes": sum(row.time_ns_median is not None for row in case.rows),
        "warnings": "; ".join(remark.line for remark in remarks_of(case)),
    }


def _plain(text: str) -> str:
    """Strip a figure to a machine-readable number; an absent one is empty."""
    return "" if text == units.ABSENT else text.replace(",", "").strip("~×% ")
