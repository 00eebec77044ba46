"""The result of a run in one sentence to quote."""

from kbench.report import units
from kbench.report.summary import CaseSummary, RunSummary


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
    share = units.percent(case.percent_of_limit)
    if case.percent_of_limit > 100 and "beats_limit" not in case.flags:
        return f"{text}, {share} of what this {device} can do with data from memory: here caches are not flushed."
    if case.percent_of_limit > 100:
        return f"{text}, {share} of the limit that full precision sets on this {device}."
    return f"{text}, {share} of what this {device} can do."
