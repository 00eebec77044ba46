"""A run as Markdown, for pull requests and step summaries. Names and messages are untrusted and escaped."""

from kbench.report.remarks import remarks
from kbench.report.shown import rows_of, stack_of
from kbench.report.summary import RunSummary
from kbench.report.table import escape_markdown, table


def render_run(run: RunSummary) -> str:
    """Write a run as a heading, a table, the reasons of failures, and every remark."""
    blocks = [
        f"### {escape_markdown(run.problem)}: {escape_markdown(run.status)}",
        escape_markdown(stack_of(run.environment)),
    ]
    if run.cases:
        blocks.append(table(rows_of(run, walls_apart=True)).markdown())
    blocks += ["- " + escape_markdown(f"case {case}: {constants}") for case, constants in run.constants.items()]
    blocks += [
        "- " + escape_markdown(f"{name}, case {case.case}: {case.reason}")
        for case, name in zip(run.cases, run.names, strict=True)
        if not case.passed
    ]
    blocks += ["- " + escape_markdown(remark.line) for remark in remarks(run)]
    return "\n\n".join(block for block in blocks if block)
