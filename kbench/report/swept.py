"""A sweep as text, Markdown, CSV or JSON. Names and messages are untrusted and escaped."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kbench.core.model import Failed, ResultRow
from kbench.engine.rows import rows_of
from kbench.engine.summary import Mean, Share, SweepSummary, judged_of, speedup_of
from kbench.engine.task import DeviceState, Finished, Retried, SweepEvent, SweepPlanned, TaskVerdict
from kbench.report import units
from kbench.report.document import render_document, render_records
from kbench.report.shown import MOST_CONSTANTS, stack_line
from kbench.report.summary import constants_text, summarise
from kbench.report.table import ReportPart, one_line, table
from kbench.storage.json_values import plain

MOST_SHOWN = 20
LONGEST_REASON = 160


def blocks(summary: SweepSummary, verdicts: Sequence[TaskVerdict], *, verbosity: int = 0) -> list[str | ReportPart]:
    """Write a sweep as blocks: failures, then the figures; verbosity -1 leaves out failures, 1 has all of them."""
    stack = "\n".join(filter(None, (stack_line(summary.environment), *_constants(verdicts))))
    shown: list[str | ReportPart] = [headline(summary), stack]
    failed = [verdict for verdict in verdicts if isinstance(verdict.last.outcome, Failed)]
    if failed and verbosity >= 0:
        rows = [
            {
                "problem": one_line(verdict.task.problem.name),
                "solution": one_line(verdict.task.solution.name),
                "status": verdict.status.value.upper(),
                "reason": _short(_reason(verdict)),
            }
            for verdict in (failed if verbosity > 0 else failed[:MOST_SHOWN])
        ]
        more = f"and {len(failed) - len(rows)} more: `-v` shows all" if len(rows) < len(failed) else ""
        shown += [table(rows, wraps={"reason"}), more]
    shown.append("\n".join(f"  {name:<12}{text}" for name, text in figures(summary).items()))
    return [*shown, _broken_off(summary), f"saved {summary.csv_path}" if summary.csv_path else ""]


def headline(summary: SweepSummary) -> str:
    """Write the number of verdicts by status in one line."""
    counts = ", ".join(f"{count} {status}" for status, count in summary.statuses.items())
    resumed = f" ({summary.resumed} of them from the journal)" if summary.resumed else ""
    return f"sweep {summary.run}: {summary.done} of {summary.tasks} verdicts{resumed}" + (
        f": {counts}" if counts else ""
    )


def figures(summary: SweepSummary) -> dict[str, str]:
    """Return the figures of a sweep by name, a line each; absent ones are left out."""
    rate = f"{summary.units_per_hour:.0f} processes an hour, " if summary.units_per_hour is not None else ""
    found = {
        "level": ", ".join(f"{count} {level}" for level, count in summary.levels.items()),
        "fast_p": fast_in_words(summary.fast),
        "speed-up": f"{mean_in_words(summary.speedup)}, {summary.held} confirmed by the judge's clock"
        if summary.speedup is not None
        else "",
        "trivial": f"{summary.trivial} pass tasks that zeros or other wrong answers pass too: in no figure above"
        if summary.trivial
        else "",
        "not judged": f"{summary.not_judged}, which is no fault of the solutions" if summary.not_judged else "",
        "retried": str(summary.retried) if summary.retried else "",
        "rate": f"{rate}{units.seconds(summary.elapsed_s)} in this command" if summary.elapsed_s > 0 else "",
        "time went": ", ".join(f"{stage} {units.seconds(spent_s)}" for stage, spent_s in summary.stage_s.items()),
    }
    return {name: text for name, text in found.items() if text}


def render_json(summary: SweepSummary, verdicts: Sequence[TaskVerdict], *, exit_code: int, hint: str | None) -> str:
    """Write a sweep as one document; `results` has one entry per verdict, without samples, which are in the files."""
    found: dict[str, Any] = plain(summary)
    found["fast"] = [{"p": p, **plain(share), "share": share.share} for p, share in summary.fast.items()]
    return render_document(
        "sweep",
        status="ok" if not summary.reason else "ended",
        reason=summary.reason,
        hint=hint,
        exit_code=exit_code,
        speedup=summary.speedup.value if summary.speedup is not None else None,
        environment=summary.environment,
        csv=summary.csv_path,
        summary=found,
        results=[_result(verdict) for verdict in verdicts],
    )


def render_csv(summary: SweepSummary, verdicts: Sequence[TaskVerdict]) -> str:
    """Write the rows of a sweep, with the columns of a results file."""
    return render_records((row for one in verdicts for row, _ in rows_of(one, summary.run, "")), ResultRow)


def describe(event: SweepEvent, done: int, tasks: int) -> str:
    """Write an event as one line of a log; empty for events that a log does not need."""
    match event:
        case SweepPlanned():
            devices = ", ".join(event.devices)
            resumed = f" · {event.resumed} from the journal" if event.resumed else ""
            lanes = f"{event.lanes} lane{'s' * (event.lanes > 1)} each, {event.jobs} builds at a time"
            return f"{event.run} · {event.tasks} verdict{'s' * (event.tasks != 1)}{resumed} · on {devices} · {lanes}"
        case Finished() if not event.verdict.resumed:
            verdict, case = event.verdict, summarise(judged_of(event.verdict))
            line = [one_line(verdict.task.name), verdict.status.value, *([case.shown_speedup] if case.speedup else [])]
            line += [_short(reason)] if (reason := _reason(verdict)) else []
            line.append(units.seconds(sum(verdict.stage_s.values())))
            return f"[{done:>{len(str(tasks))}}/{tasks}] {'  '.join(line)}"
        case Retried():
            return f"  again, attempt {event.attempt + 1}: {one_line(event.task.name)}: {_short(event.reason)}"
        case DeviceState():
            return f"  {event.device} is {event.state}: {_short(event.reason)}"
        case _:
            return ""


def _short(text: str) -> str:
    shown = one_line(text)
    return shown if len(shown) <= LONGEST_REASON else shown[: LONGEST_REASON - 1] + "…"


def _reason(verdict: TaskVerdict) -> str:
    return verdict.last.outcome.reason if isinstance(verdict.last.outcome, Failed) else ""


def _result(verdict: TaskVerdict) -> dict[str, Any]:
    """Write a verdict with the keys of a result of `run`, but its rows; and what a sweep knows of it beside."""
    task, last = verdict.task, verdict.last
    found = plain(replace(summarise(judged_of(verdict)), rows=(), timings=()))
    del found["rows"], found["timings"]
    return {
        **found,
        "key": task.key,
        "problem": task.problem.name,
        "also": task.also,
        "path": task.solution.path,
        "overrides": task.case.overrides,
        "claim": task.claim,
        "tags": task.tags,
        "retryable": last.retryable,
        "attempts": last.attempts,
        "speedup": speedup_of(verdict),
        "processes": len(verdict.results),
        "resumed": verdict.resumed,
        "environment": last.environment,
    }


def _constants(verdicts: Sequence[TaskVerdict]) -> list[str]:
    cases = [verdict.task.case for verdict in verdicts]
    found = dict.fromkeys(
        f"case {one_line(case.name)}: {one_line(constants_text(case.overrides))}" for case in cases if case.overrides
    )
    if len(found) > MOST_CONSTANTS:
        return [f"constants of {len(found)} cases: `--json` has them"]
    return list(found)


def fast_in_words(fast: Mapping[float, Share]) -> str:
    """Write fast_p: for each threshold the share of solutions, and its band."""
    parts = [
        f"p = {p:g}: {100 * share.share:.1f} % ({100 * share.low:.1f} to {100 * share.high:.1f})"
        for p, share in fast.items()
    ]
    return " · ".join(parts) + " · weighted" * any(share.weighted is not None for share in fast.values())


def mean_in_words(mean: Mean | None) -> str:
    """Write a mean of speed-ups, with the digits that its solutions support; empty for none."""
    if mean is None:
        return ""
    shown = units.speedup(mean.value, mean.low, mean.high, alone=mean.count == 1)
    interval = "" if mean.low is None else f" ({units.interval(mean.low, mean.high)})"
    return f"{mean.name} {shown}{interval} of {mean.count}"


def _broken_off(summary: SweepSummary) -> str:
    if not summary.reason and not summary.left:
        return ""
    why = summary.reason or "it ended early"
    return f"{summary.left} of {summary.tasks} are left: {why}; `kbench sweep --resume {summary.run}` goes on"
