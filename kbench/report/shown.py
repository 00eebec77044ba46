"""The figures of a case and the sentence on a run as every report prints them: all agree to the digit."""

from collections.abc import Sequence

from kbench.core.events import Waiting
from kbench.core.model import Environment
from kbench.devices.backend import is_timed_by_host
from kbench.report import units
from kbench.report.summary import CaseSummary, RunSummary
from kbench.report.table import one_line
from kbench.report.units import TimeUnit


def stack_of(here: Environment | None) -> str:
    """Write what a run was measured on in one line; empty if it is not known."""
    if here is None:
        return ""
    clock = "CPU timing" if is_timed_by_host(here.device) else f"driver {here.driver} · CUDA {here.cuda}"
    return f"{here.gpu_name} · {clock} · torch {here.torch}"


def render_waiting(event: Waiting) -> str:
    """Write who is waited for: `waiting for NVIDIA H200, in use by pid 812 (ann): kbench run group_norm`."""
    return f"waiting for {event.device}, in use by {one_line(event.holder)}"


def unit_of(cases: Sequence[CaseSummary]) -> TimeUnit:
    """Choose the unit of a run's times."""
    return units.unit_for(time for case in cases for time in (case.time_ns, case.reference_ns))


def shown(case: CaseSummary, unit: TimeUnit) -> dict[str, str]:
    """Write the figures of a case, each with the digits that are confirmed; times are without their unit."""
    return {
        "verdict": case.status.value if case.passed else case.status.value.upper(),
        "time": units.time_cell(case.time_ns, unit, case.shown_half_width_ns),
        "wall": units.time_cell(case.wall_ns, unit),
        "reference": units.time_cell(case.reference_ns, unit, case.shown_half_width_ns),
        "reference_wall": units.time_cell(case.ref_wall_ns, unit),
        "speedup": case.shown_speedup,
        "percent_of_limit": units.percent(case.percent_of_limit),
        "own_kernels": units.percent(None if case.own_share is None else 100 * case.own_share),
        "worst_error": units.error_size(case.correctness.max_abs_err) if case.correctness else units.ABSENT,
    }


def rows_of(run: RunSummary, *, walls_apart: bool) -> list[dict[str, str]]:
    """Return the cells of a run by column, a row per case; with `walls_apart`, wall times have columns of their own."""
    unit = unit_of(run.cases)
    several = len(run.problems) > 1
    rows = []
    for case in run.cases:
        cells = shown(case, unit)
        time, reference = cells["time"], cells["reference"]
        if not walls_apart:
            time = units.both_times(time, case.remarked_wall_ns, unit)
            reference = units.both_times(reference, case.remarked_ref_wall_ns, unit)
        problem = {"problem": case.rows[0].problem if case.rows else ""} if several else {}
        rows.append(
            {
                **problem,
                "solution": case.solution,
                "case": case.case,
                "verdict": cells["verdict"],
                "level": case.shown_level,
                f">time {unit.name}": time,
                f">wall {unit.name}": cells["wall"] if walls_apart else units.ABSENT,
                f">reference {unit.name}": reference,
                f">reference wall {unit.name}": cells["reference_wall"] if walls_apart else units.ABSENT,
                ">speed-up": case.shown_speedup,
                ">95 % interval": case.shown_interval,
                ">of limit": cells["percent_of_limit"],
            }
        )
    return rows


def headline(run: RunSummary) -> str:
    """Write the result of a run in one sentence."""
    passed = [case for case in run.cases if case.passed]
    timed = [(case, name) for case, name in zip(run.cases, run.names, strict=True) if case.passed and case.speedup]
    if len(run.cases) == 1:
        return sentence(run.cases[0])
    everyone = "Both" if len(passed) == 2 else f"All {len(passed)}"
    counted = f"{everyone if len(passed) == len(run.cases) else f'{len(passed)} of {len(run.cases)}'} pass"
    if not timed:
        return f"{counted}."
    best, name = max(timed, key=lambda each: each[0].speedup or 0.0)
    where = f" on case {best.case}" if len({case.case for case in run.cases}) > 1 else ""
    named = f"The fastest is {name}" if len(timed) > 1 else name
    return f"{counted}. {named}{where}: {_measured(best)}"


def sentence(case: CaseSummary) -> str:
    """Write the result of one solution and case, as in the headline."""
    if not case.passed:
        return f"{case.solution} does not pass: {case.status.value}."
    if case.speedup is None:
        return f"{case.solution} is right; it was not timed."
    return f"{case.solution} is right: {_measured(case)}"


def _measured(case: CaseSummary) -> str:
    interval = f" (95 % interval {case.shown_interval})" if case.shown_interval != units.ABSENT else ""
    text = f"{case.shown_speedup} the reference's speed{interval}"
    if case.percent_of_limit is None:
        return f"{text}."
    device = (case.rows[0].gpu_name if case.rows else "") or "device"
    what = f"what this {device} can do"
    if case.percent_of_limit > 100 and "beats_limit" in case.flags:
        what = f"the limit that full precision sets on this {device}"
    elif case.percent_of_limit > 100:
        what += " with data from memory: here caches are not flushed"
    return f"{text}, {units.percent(case.percent_of_limit)} of {what}."
