"""A run as text, JSON, CSV and Markdown: a table that needs no colour, then failures and what to do.

Names and messages are untrusted, and escaped in Markdown.
"""

import dataclasses
import re
from typing import Any

from kbench.core.explain import explain
from kbench.core.model import ResultRow, Sample, Status
from kbench.core.printable import printable
from kbench.core.timed import forward_of
from kbench.report import units
from kbench.report.document import render_document, render_records
from kbench.report.pivot import pivot_of
from kbench.report.shown import MOST_CONSTANTS, headline, notes_of_run, rows_of, shown, stack_line, unit_of, where
from kbench.report.summary import HOST_BOUND, CaseSummary, RunSummary
from kbench.report.table import ReportPart, Table, one_line, table
from kbench.storage.json_values import plain

VARYING = re.compile(r"-?\d+(?:[.,]\d+)*(?:e[+-]?\d+)?|\binf\b|\bnan\b|\b\w+(?=\(\))")
"""Parts of a reason that may differ between equal failures: numbers, and names of functions."""
LOG_LINES = 12
"""Lines of a build or crash log that are shown without `-v`."""
LOG_COLUMNS = 160
"""Longest line that is shown: a compiler's command line has thousands of characters."""

NOT_LATEST = "no solution was judged, so `@latest` stays the run before"


def blocks(run: RunSummary, *, verbosity: int = 0, printed: bool = False) -> list[str | ReportPart]:
    """Write a run as blocks; verbosity -1: verdicts, 1: whole logs, stages; `printed`: what solutions printed."""
    if verbosity < 0:
        return ["\n".join([*map(_verdict_line, run.cases, run.names), *_closing(run)])]
    pivot = pivot_of(run, intervals=verbosity > 0)
    shown: list[str | ReportPart] = [_heading(run, verbosity)] if run.cases else []
    shown += [_table(run, verbosity)] if run.cases and (pivot is None or verbosity > 0) else []
    shown += [pivot] if pivot is not None else []
    shown += failures(run, verbosity)
    shown.append("\n".join(note.line for note in notes_of_run(run, verbosity)))
    if verbosity > 0 or printed:
        logs = [case for case in run.cases if case.passed and case.log]
        shown += ["\n".join([f"printed by {c.solution}, case {c.case}", *_log_lines(c, verbosity)]) for c in logs]
    if verbosity > 0 and run.cases:
        shown += [_processes(run), _where_time_went(run)]
    if any(case.speedup is not None for case in run.cases):
        shown.append((pivot.sentence() if pivot is not None else "") or headline(run))
    return [*shown, "\n".join(_closing(run))]


def render_json(run: RunSummary, *, exit_code: int, command: str = "run", samples: bool = False) -> str:
    """Write a run as one document; with `samples`, which are nine tenths of it, it has every timed call."""
    return render_document(
        command,
        status=run.status,
        reason=run.reason,
        hint=run.error.hint if run.error else None,
        exit_code=exit_code,
        findings=[
            {"solution": case.solution, "case": case.case, **plain(finding)}
            for case in run.cases
            for finding in case.findings
        ],
        speedup=run.speedup,
        speedups={name: run.speedup_of(name) for name in run.solutions},
        problem=run.problem,
        environment=run.environment,
        csv=run.csv_path,
        results=[result(case, samples=samples) for case in run.cases],
    )


def result(case: CaseSummary, *, samples: bool = False) -> dict[str, Any]:
    """Return the fields of a case; samples are columns, which take a third of the size of records."""
    names = [field.name for field in dataclasses.fields(Sample)] if samples else []
    timings = [
        plain(dataclasses.replace(timing, samples=()))
        | {"samples": {name: [plain(getattr(sample, name)) for sample in timing.samples] for name in names}}
        for timing in case.timings
    ]
    return {**plain(dataclasses.replace(case, timings=())), "timings": timings}


def render_csv(run: RunSummary) -> str:
    """Write the rows of a run as CSV, with the columns of a results file."""
    return render_records(run.rows, ResultRow)


def _verdict_line(case: CaseSummary, name: str) -> str:
    if not case.passed:
        return f"{case.status.value}  {name}  {case.case}  {one_line(case.reason)}"
    measured = ""
    if case.speedup is not None:
        alone = "  one process, no interval" if case.alone else ""
        wall = f", wall {units.duration(case.wall_ns)}" if HOST_BOUND in case.flags and case.wall_ns is not None else ""
        measured = f"  {units.duration(case.time_ns)}{wall}  {case.shown_speedup}{alone}"
    level = f"  {case.shown_level}" if case.level else ""
    return f"passed  {name}  {case.case}{measured}{level}"


def _heading(run: RunSummary, verbosity: int) -> str:
    if not run.rows:
        return run.problem
    parts = [run.problem, stack_line(run.rows[0])]
    timed = [row for case in run.timed for row in case.rows if row.time_ns_median is not None]
    if timed:
        counts = {len({row.process for row in case.rows}) for case in run.timed}
        alone = counts == {1}
        parts.append("1 process, no interval" if alone else f"{' or '.join(map(str, sorted(counts)))} processes")
        cache = "" if timed[0].l2 in {"", "none"} else f", L2 {timed[0].l2}"
        timers = " or ".join(dict.fromkeys(row.timer for row in timed))
        parts.append(f"{timers} timer, {timed[0].mode}{cache}")
        if any(row.dram_bytes for row in timed) and all(row.limit_ns is None for row in timed):
            parts.append("limit unknown: `kbench doctor` measures it")
    lines = [" · ".join(part for part in parts if part)]
    if len(run.constants) <= MOST_CONSTANTS or verbosity > 0:
        named = {forward_of(case): text for case, text in run.constants.items() if case != text.replace(", ", ",")}
        lines += [f"case {one_line(case)}: {one_line(constants)}" for case, constants in named.items()]
    if run.unjudged:
        judged = len({forward_of(case.case) for case in run.cases})
        lines.append(f"{judged} of {judged + run.unjudged} cases judged; `--case '*'` judges all")
    return "\n".join(lines)


def _table(run: RunSummary, verbosity: int) -> Table:
    unit = unit_of(run.cases)
    rows = [
        {**row, "": units.bar(case.percent_of_limit), ">worst error": shown(case, unit)["worst_error"]}
        for row, case in zip(rows_of(run, walls_apart=verbosity > 0), run.cases, strict=True)
    ]
    for name in run.solutions:
        if len(run.counted(name)) > 1 and run.speedup_of(name) is not None:
            mean = {"solution": name, "case": run.mean_name, ">speed-up": run.shown_speedup_of(name)}
            rows.append(dict.fromkeys(rows[0], "") | mean)
    first = (">reference", ">worst", ">bandwidth", ">arithmetic", ">peak")
    spare = {title.removeprefix(">"): 1 for title in rows[0] if title.startswith(first)}
    return table(rows, wraps={"level"}, spare={"": 1, **spare, "of limit": 2, "95 % interval": 2})


def failures(run: RunSummary, verbosity: int) -> list[str]:
    """Write each kind of failure once, with the solutions and cases that have it; with `-v` each failure by itself."""
    groups: dict[tuple[str, ...], list[tuple[CaseSummary, str]]] = {}
    for case, name in zip(run.cases, run.names, strict=True):
        if not case.passed:
            key = (name, case.case) if verbosity > 0 else _kind_of(case)
            groups.setdefault(key, []).append((case, name))
    blocks = []
    for number, group in enumerate(groups.values()):
        cases, names = zip(*group, strict=True)
        blocks.append(failure(cases[0], where(cases, names, run), verbosity, hint=verbosity > 0 or not number))
    return blocks


def _kind_of(case: CaseSummary) -> tuple[str, ...]:
    """Return what makes failures alike: the reason but for its numbers, and for the solution unless values differ."""
    if case.diagnosis is not None:
        return case.status.value, case.diagnosis.code
    reason = re.sub(rf"\b{re.escape(case.solution)}\b", "#", case.reason)
    return case.status.value, VARYING.sub("#", reason), case.solution if case.correctness is not None else ""


def failure(case: CaseSummary, who: str, verbosity: int = 0, *, hint: bool = True) -> str:
    """Write how a case failed: the reason, its evidence, an excerpt of the log, and what to do."""
    lines = [f"{case.status.value}: {who}: {one_line(case.reason)}"]
    code = case.status.value
    if case.diagnosis is not None:
        code = case.diagnosis.code
        lines.append(f"diagnosis: {one_line(case.diagnosis.evidence)} [{code}]")
    if case.status is Status.BELOW_LEVEL and (fatal := [one for one in case.findings if one.fatal]):
        code = fatal[0].code
        lines += [f"level: {one_line(fatal[0].message)} [{code}]"] if case.diagnosis is None else []
    lines += _log_lines(case, verbosity)
    known = explain(code)
    if hint and known is not None and case.status is not Status.SKIPPED:
        lines.append(f"hint: {known.fix}")
    return "\n".join(lines)


def _log_lines(case: CaseSummary, verbosity: int) -> list[str]:
    """Choose lines: of a build from the first error on, else the last ones; blanks are kept, for compilers' marks.

    Without `-v`, lines that repeat the reason are left out.
    """
    log = shown = case.log.rstrip().splitlines()
    if verbosity < 1:
        first = max(len(log) - LOG_LINES, 0)
        if case.status is Status.BUILD_FAILED:
            first = next((place for place, line in enumerate(log) if case.reason[:200] in line), first)
        log[first:] = [line for line in log[first:] if not (case.reason and line.rstrip().endswith(case.reason))]
        shown = log[first : first + LOG_LINES]
        shown = [line if len(line) <= LOG_COLUMNS else f"{line[:LOG_COLUMNS]} …" for line in shown]
    left = len(log) - len(shown)
    more = [f"  … {left} more line{'s' if left > 1 else ''} with `-v`"] if left else []
    return [*(f"  | {printable(line.expandtabs().rstrip())}" for line in shown), *more]


def _processes(run: RunSummary) -> str | Table:
    rows = [row for row in run.rows if row.time_ns_median is not None]
    unit = units.unit_for(row.time_ns_median for row in rows)
    cells = [
        {
            "solution": row.solution,
            "case": row.case,
            ">process": str(row.process),
            f">median {unit.name}": _precise(row.time_ns_median, unit),
            ">q1": _precise(row.time_ns_q1, unit),
            ">q3": _precise(row.time_ns_q3, unit),
            ">min": _precise(row.time_ns_min, unit),
            ">speed-up": units.ABSENT if row.speedup is None else f"{row.speedup:.4f}×",
            f">judge's clock {unit.name}": units.plus_minus(row.attested_ns, row.attested_half_width_ns, unit),
            f">wall {unit.name}": _precise(row.wall_ns, unit),
            ">reference wall": _precise(row.ref_wall_ns, unit),
            ">SM MHz": units.ABSENT if row.sm_clock_mhz is None else str(row.sm_clock_mhz),
        }
        for row in rows
    ]
    return table(cells, title="processes") if rows else "no process was timed"


def _precise(time_ns: float | None, unit: units.TimeUnit) -> str:
    return units.ABSENT if time_ns is None else f"{time_ns / unit.size_ns:,.3f}"


def _where_time_went(run: RunSummary) -> Table:
    took = [(case.solution, case.case, stage, spent_s) for case in run.cases for stage, spent_s in case.stage_s.items()]
    took += [("reference", case, stage, s) for case, stages in run.reference_s.items() for stage, s in stages.items()]
    known_s = sum(spent_s for *_, spent_s in took)
    if run.elapsed_s is not None:
        if run.elapsed_s > known_s:  # builds side by side took longer together than the run did
            took.append(("", "", "rest", run.elapsed_s - known_s))
        took.append(("", "", "total", run.elapsed_s))
    cells = [
        {"solution": solution, "case": case, "stage": stage, ">took": units.seconds(spent_s)}
        for solution, case, stage, spent_s in took
    ]
    return table(cells, title="where the time went")


def _closing(run: RunSummary) -> list[str]:
    if run.csv_path is None:
        return []
    passed_over = f" ({NOT_LATEST})" if {case.status for case in run.cases} == {Status.SKIPPED} else ""
    return [f"saved {run.csv_path}{passed_over}"]
