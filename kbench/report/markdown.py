"""A run as Markdown, for pull requests and step summaries. Names and messages are untrusted and escaped."""

from kbench.devices.backend import is_timed_by_host
from kbench.report import units
from kbench.report.remarks import remarks
from kbench.report.shown import shown, unit_of
from kbench.report.summary import CaseSummary, RunSummary
from kbench.report.table import Column, escape_markdown, render_markdown_table


def render_run(run: RunSummary) -> str:
    """Write a run as a heading, a table, the reasons of what failed, and every remark."""
    unit = unit_of(run.cases)
    columns = [
        Column(title="solution"),
        Column(title="case"),
        Column(title="verdict"),
        Column(title="level"),
        Column(title=f"time {unit.name}", right=True),
        Column(title=f"wall {unit.name}", right=True),
        Column(title=f"reference {unit.name}", right=True),
        Column(title=f"reference wall {unit.name}", right=True),
        Column(title="speed-up", right=True),
        Column(title="95 % interval", right=True),
        Column(title="of limit", right=True),
    ]
    blocks = [f"### {escape_markdown(run.problem)}: {escape_markdown(run.status)}", _stack(run)]
    if run.cases:
        blocks.append(render_markdown_table(columns, [_cells(case, unit) for case in run.cases]))
    blocks += ["- " + escape_markdown(f"case {case}: {constants}") for case, constants in run.constants.items()]
    blocks += [
        "- " + escape_markdown(f"{case.solution}, case {case.case}: {case.reason}")
        for case in run.cases
        if not case.passed
    ]
    blocks += ["- " + escape_markdown(remark.line) for remark in remarks(run)]
    return "\n\n".join(block for block in blocks if block)


def _stack(run: RunSummary) -> str:
    here = run.environment
    if here is None:
        return ""
    clock = "CPU timing" if is_timed_by_host(here.device) else f"driver {here.driver} · CUDA {here.cuda}"
    return escape_markdown(f"{here.gpu_name} · {clock} · torch {here.torch}")


def _cells(case: CaseSummary, unit: units.TimeUnit) -> list[str]:
    cells = shown(case, unit)
    return [
        case.solution,
        case.case,
        cells.verdict,
        cells.level,
        cells.time,
        cells.wall,
        cells.reference,
        cells.reference_wall,
        cells.speedup,
        cells.interval,
        cells.of_limit,
    ]
