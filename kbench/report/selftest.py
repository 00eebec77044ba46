"""The selftest's result as text, Markdown, JSON and CSV: a row per class, then every miss and its expectation."""

from collections import Counter

from kbench.core.errors import KbenchError
from kbench.core.levels import level_in_words
from kbench.core.model import Status
from kbench.report import units
from kbench.report.document import render_document, render_records
from kbench.report.table import ReportPart, one_line, table
from kbench.selftest.checks import Checked, SelftestReport


def blocks(report: SelftestReport, *, verbosity: int = 0) -> list[str | ReportPart]:
    """Write a report as blocks; verbosity -1 keeps the verdict, 1 adds every fixture."""
    if verbosity < 0:
        return [verdict(report)]
    shown: list[str | ReportPart] = [
        f"selftest · {report.device_name} · torch {report.torch} · isolation {report.isolation}"
    ]
    for title, honest in (("attacks", False), ("honest look-alikes", True)):
        of = Counter(check.category for check in report.checks if check.honest is honest)
        right = of - Counter(miss.category for miss in report.misses if miss.honest is honest)
        counts = [*((name, right[name], of[name]) for name in sorted(of)), ("all", right.total(), of.total())]
        rows = [{"class": name, ">right": str(good), ">of": str(total)} for name, good, total in counts if total]
        shown.append(table(rows, title=title))
    if verbosity > 0 and report.checks:
        shown.append(table([_fixture(check) for check in report.checks]))
    return [*shown, *map(_miss, report.misses), verdict(report)]


def render_csv(report: SelftestReport) -> str:
    """Write a line per fixture."""
    return render_records(report.checks, Checked)


def _fixture(check: Checked) -> dict[str, str]:
    return {
        "result": "ok" if check.complaint is None else "MISS",
        "fixture": check.name,
        "problem": check.problem,
        "class": f"{'honest' if check.honest else 'attack'}: {check.category}",
        "status": check.status,
        "level": level_in_words(check.level, check.lacks),
        "complaint": one_line(check.complaint or ""),
    }


def render_json(report: SelftestReport, *, error: KbenchError | None = None) -> str:
    """Write a report as one JSON document; `error` has ended it early."""
    done = "failed" if report.misses else "passed"
    return render_document(
        "selftest",
        status=done if error is None else "interrupted",
        reason=verdict(report) if error is None else error.message,
        hint=error.hint if error is not None else None,
        exit_code=report.exit_code if error is None else error.exit_code,
        findings=[{"kind": "miss", "solution": miss.name, "message": miss.complaint} for miss in report.misses],
        device=report.device,
        device_name=report.device_name,
        isolation=report.isolation,
        torch=report.torch,
        fixtures=report.fixtures,
        kept=report.kept,
        elapsed_s=report.elapsed_s,
        detection_rate=report.detection_rate,
        false_positive_rate=report.false_positive_rate,
        results=report.checks,
    )


def verdict(report: SelftestReport) -> str:
    """Write the result in one line."""
    parts = []
    if report.detection_rate is not None:
        parts.append(f"{report.detection_rate:.1%} of attacks caught or contained")
    if report.false_positive_rate is not None:
        parts.append(f"{report.false_positive_rate:.1%} of honest solutions refused")
    word = "FAILED" if report.misses else "passed"
    if not report.is_complete:
        word, parts = "ended early", [f"{len(report.checks)} of {report.fixtures} fixtures judged", *parts]
    kept = f", {report.kept} kept from earlier commands" if report.kept else ""
    return f"selftest {word}: {', '.join([*parts, f'in {units.seconds(report.elapsed_s)}'])}{kept}"


def line(check: Checked) -> str:
    """Write the result of one fixture in one line; an attack that passes and reached nothing is contained."""
    word = "ok" if check.complaint is None else "MISS"
    kind = "honest" if check.honest else "attack"
    level = f"  {level_in_words(check.level, check.lacks)}" if check.level else ""
    contained = check.complaint is None and not check.honest and check.status == Status.PASSED
    status = "contained" if contained else check.status
    speedup = "" if check.speedup is None else f"  {check.speedup:.2f}x"
    return f"{word:<4}  {kind}  {check.name}  {status}{level}{speedup}  {units.seconds(check.elapsed_s)}"


def _miss(check: Checked) -> str:
    lines = [f"MISS  {check.name}  {one_line(check.complaint or '')}"]
    lines += [f"  {one_line(check.reason)}"] if check.reason else []
    lines += [f"  findings: {' '.join(check.findings)}"] if check.findings else []
    return "\n".join(lines)
