"""The figures of a case as every report prints them: text, Markdown, HTML and the summary CSV agree to the digit."""

from collections.abc import Sequence
from dataclasses import dataclass

from kbench.report import units
from kbench.report.summary import CaseSummary
from kbench.report.units import TimeUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCase:
    """One solution and case in words; times are without their unit."""

    verdict: str
    level: str
    time: str
    wall: str
    reference: str
    reference_wall: str
    speedup: str
    interval: str
    of_limit: str
    worst_error: str


def unit_of(cases: Sequence[CaseSummary]) -> TimeUnit:
    """Choose the unit of a run's times."""
    return units.unit_for(time for case in cases for time in (case.time_ns, case.reference_ns))


def shown(case: CaseSummary, unit: TimeUnit) -> ShownCase:
    """Write the figures of a case, each with the digits that are confirmed."""
    return ShownCase(
        verdict=case.status.value if case.passed else case.status.value.upper(),
        level=case.shown_level,
        time=units.time_cell(case.time_ns, unit, case.shown_half_width_ns),
        wall=units.time_cell(case.wall_ns, unit),
        reference=units.time_cell(case.reference_ns, unit, case.shown_half_width_ns),
        reference_wall=units.time_cell(case.ref_wall_ns, unit),
        speedup=case.shown_speedup,
        interval=case.shown_interval,
        of_limit=units.percent(case.percent_of_limit),
        worst_error=units.error_size(case.correctness.max_abs_err) if case.correctness else units.ABSENT,
    )
