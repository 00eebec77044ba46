"""A gate's report for GitHub Actions: annotations (GitHub shows ten per step) and a step summary."""

from kbench.core.errors import ExitCode
from kbench.gate.rule import GatedCase, GateOutcome, GateReport
from kbench.report.comparison import bounds_of, change_of
from kbench.report.gate import headline, render_markdown, word_of, worst_first

MOST_ANNOTATIONS = 10
SUMMARY_BYTES = 1_000_000
"""GitHub drops a summary above 1 MiB as a whole."""


def render_annotations(report: GateReport) -> str:
    """Write at most ten workflow commands, the worst first; the last one counts those that do not fit."""
    notable = [case for case in worst_first(report.cases) if case.outcome is not GateOutcome.OK]
    lines = [
        _annotation("warning" if case.outcome is GateOutcome.WARNED else "error", word_of(case), _message(case))
        for case in notable
    ]
    if len(lines) > MOST_ANNOTATIONS:
        rest = len(lines) - (MOST_ANNOTATIONS - 1)
        lines = lines[: MOST_ANNOTATIONS - 1]
        lines.append(_annotation("error", "kbench gate", f"{rest} more cases, in the step summary"))
    if not lines:
        level = "notice" if report.exit_code is ExitCode.OK else "error"
        lines = [_annotation(level, "kbench gate", headline(report))]
    return "\n".join(lines)


def render_summary(report: GateReport) -> str:
    """Write the step summary: the table, cut at the size above which GitHub drops all of it."""
    text = render_markdown(report)
    if len(text.encode()) <= SUMMARY_BYTES:
        return text
    kept = text.encode()[: SUMMARY_BYTES - 100].decode(errors="ignore").rpartition("\n")[0]
    return kept + "\n\nThe rest did not fit."


def _message(case: GatedCase) -> str:
    verdict = case.deciding
    measured = "" if verdict.ratio is None else f" {change_of(verdict)} ({bounds_of(verdict)})"
    return f"{case.name}{measured}: {verdict.message}"


def _annotation(level: str, title: str, message: str) -> str:
    name = _data(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={name}::{_data(message)}"


def _data(text: str) -> str:
    """Escape a message for a workflow command, so that a candidate cannot issue commands."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
