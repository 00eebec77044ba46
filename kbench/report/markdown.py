"""A run as Markdown, for pull requests and step summaries. Names and messages are untrusted and escaped."""

from kbench.devices.backend import is_timed_by_host
from kbench.report import units
from kbench.report.summary import CaseSummary, RunSummary
from kbench.report.table import Column, escape_markdown, render_markdown_table


def render_run(run: RunSummary) -> str:
    """Write a run as a heading, a table and the reasons of what failed."""
    unit = units.unit_for(time for case in run.cases for time in (case.time_ns, case.reference_ns))
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
    return "\n\n".join(block for block in blocks if block)


def _stack(run: RunSummary) -> str:
    here = run.environment
    if here is None:
        return ""
    clock = "CPU timing" if is_timed_by_host(here.device) else f"driver {here.driver} · CUDA {here.cuda}"
    return escape_markdown(f"{here.gpu_name} · {clock} · torch {here.torch}")


def _cells(case: CaseSummary, unit: units.TimeUnit) -> list[str]:
    return [
        case.solution,
        case.case,
        case.status.value if case.passed else case.status.value.upper(),
        case.shown_level,
        units.time_cell(case.time_ns, unit, case.shown_half_width_ns),
        units.time_cell(case.wall_ns, unit),
        units.time_cell(case.reference_ns, unit, case.shown_half_width_ns),
        units.time_cell(case.ref_wall_ns, unit),
        case.shown_speedup,
        case.shown_interval,
        units.percent(case.percent_of_limit),
    ]
