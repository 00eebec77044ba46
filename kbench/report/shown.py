"""The figures of a case as every report prints them: text, Markdown, HTML and the summary CSV agree to the digit."""

from collections.abc import Sequence
from dataclasses import dataclass

from kbench.core.model import Environment
from kbench.devices.backend import is_timed_by_host
from kbench.report import units
from kbench.report.summary import CaseSummary, RunSummary
from kbench.report.units import TimeUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCase:
    """One solution and case in words; times are without their unit."""

    verdict: str
    time: str
    wall: str
    reference: str
    reference_wall: str
    of_limit: str
    own_kernels: str
    worst_error: str


def stack_of(here: Environment | None) -> str:
    """Write what a run was measured on in one line; empty if it is not known."""
    if here is None:
        return ""
    clock = "CPU timing" if is_timed_by_host(here.device) else f"driver {here.driver} · CUDA {here.cuda}"
    return f"{here.gpu_name} · {clock} · torch {here.torch}"


def unit_of(cases: Sequence[CaseSummary]) -> TimeUnit:
    """Choose the unit of a run's times."""
    return units.unit_for(time for case in cases for time in (case.time_ns, case.reference_ns))


def shown(case: CaseSummary, unit: TimeUnit) -> ShownCase:
    """Write the figures of a case, each with the digits that are confirmed."""
    return ShownCase(
        verdict=case.status.value if case.passed else case.status.value.upper(),
        time=units.time_cell(case.time_ns, unit, case.shown_half_width_ns),
        wall=units.time_cell(case.wall_ns, unit),
        reference=units.time_cell(case.reference_ns, unit, case.shown_half_width_ns),
        reference_wall=units.time_cell(case.ref_wall_ns, unit),
        of_limit=units.percent(case.percent_of_limit),
        own_kernels=units.percent(None if case.own_share is None else 100 * case.own_share),
        worst_error=units.error_size(case.correctness.max_abs_err) if case.correctness else units.ABSENT,
    )


def rows_of(run: RunSummary, *, walls_apart: bool) -> list[dict[str, str]]:
    """Return the cells of a run by column, a row per case.

    Wall times have their own columns if `walls_apart`; else only those far from the device's are shown.
    """
    unit = unit_of(run.cases)
    rows = [_cells(case, unit, walls_apart=walls_apart) for case in run.cases]
    if len(run.problems) <= 1:
        return rows
    problems = (case.rows[0].problem if case.rows else "" for case in run.cases)
    return [{"problem": problem, **row} for problem, row in zip(problems, rows, strict=True)]


def _cells(case: CaseSummary, unit: TimeUnit, *, walls_apart: bool) -> dict[str, str]:
    cells = shown(case, unit)
    time, reference = cells.time, cells.reference
    if not walls_apart:
        time = units.both_times(time, case.remarked_wall_ns, unit)
        reference = units.both_times(reference, case.remarked_ref_wall_ns, unit)
    return {
        "solution": case.solution,
        "case": case.case,
        "verdict": cells.verdict,
        "level": case.shown_level,
        f">time {unit.name}": time,
        f">wall {unit.name}": cells.wall if walls_apart else units.ABSENT,
        f">reference {unit.name}": reference,
        f">reference wall {unit.name}": cells.reference_wall if walls_apart else units.ABSENT,
        ">speed-up": case.shown_speedup,
        ">95 % interval": case.shown_interval,
        ">of limit": cells.of_limit,
    }
