"""A gate's report as text, Markdown, JSON, CSV and JUnit XML, and for GitHub: failures first, commands last."""

import contextlib
import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any
from xml.etree import ElementTree as Xml

from kbench.catalog import case_selection, registry
from kbench.catalog.constant_text import text_of
from kbench.core.errors import ExitCode, KbenchError
from kbench.core.model import Time
from kbench.core.verdict import Answer, evaluates
from kbench.devices.backend import is_timed_by_host
from kbench.gate.rule import GatedCase, GateOutcome, GateReport
from kbench.report.comparison import WORDS, bounds_of, cells, change_of, constant_lines, shared_reasons, unshared_reason
from kbench.report.document import render_document, render_lines
from kbench.report.table import ReportPart, Table, as_markdown, one_line, table
from kbench.storage.json_values import plain
from kbench.storage.results import constants_of
from kbench.storage.settings import Settings

MOST_ANNOTATIONS = 10
"""Largest number of annotations that GitHub shows for a step."""
SUMMARY_BYTES = 1_000_000
"""GitHub drops a summary above 1 MiB as a whole."""
HEADLINES = {
    ExitCode.OK: "GATE PASSED",
    ExitCode.NEGATIVE: "GATE FAILED",
    ExitCode.ENVIRONMENT: "NO VERDICT",
    ExitCode.INCONCLUSIVE: "INCONCLUSIVE",
    ExitCode.NOTHING_SELECTED: "NOTHING TO JUDGE",
}


def blocks(report: GateReport, *, verbosity: int = 0) -> list[str | ReportPart]:
    """Write the report as blocks; verbosity -1 keeps the first line, 0 adds cases that are not OK, 1 every case."""
    if verbosity < 0:
        return [headline(report)]
    shown = report.cases if verbosity > 0 else [case for case in report.cases if case.outcome is not GateOutcome.OK]
    lines = [f"warning: {one_line(text)}" for text in warnings(report)]
    lines += [f"hint: {text}" for text in hints(report)]
    head = [headline(report), *constant_lines(shown)]
    shared = shared_reasons([(word_of(case), case.deciding.message) for case in worst_first(shown)])
    return ["\n".join(head), _table(shown, shared) if shown else "", "\n".join(shared.values()), "\n".join(lines)]


def render_annotations(report: GateReport) -> str:
    """Write at most ten workflow commands, the worst first; the last one counts those that do not fit."""
    lines = []
    for case in worst_first(report.cases):
        if case.outcome is not GateOutcome.OK:
            verdict = case.deciding
            measured = "" if verdict.ratio is None else f" {change_of(verdict)} ({bounds_of(verdict)})"
            level = "warning" if case.outcome is GateOutcome.WARNED else "error"
            lines.append(_annotation(level, word_of(case), f"{case.name}{measured}: {verdict.message}"))
    if not lines:
        return _annotation("notice" if report.exit_code is ExitCode.OK else "error", "kbench gate", headline(report))
    if len(lines) > MOST_ANNOTATIONS:
        rest = len(lines) - (MOST_ANNOTATIONS - 1)
        more = _annotation("error", "kbench gate", f"{rest} more cases, in the step summary")
        lines = [*lines[: MOST_ANNOTATIONS - 1], more]
    return "\n".join(lines)


def _annotation(level: str, title: str, message: str) -> str:
    """Write a workflow command, escaped so that a candidate cannot issue commands."""
    title, message = (text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A") for text in (title, message))
    title = title.replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={title}::{message}"


def render_step_summary(report: GateReport) -> str:
    """Write the step summary of GitHub: the Markdown, cut where it is too long."""
    text = as_markdown(blocks(report, verbosity=1))
    if len(text.encode()) <= SUMMARY_BYTES:
        return text
    kept = text.encode()[: SUMMARY_BYTES - 100].decode(errors="ignore").rpartition("\n")[0]
    return kept + "\n\nThe rest did not fit."


def render_json(report: GateReport) -> str:
    """Write the report as one JSON document."""
    status = {ExitCode.OK: "passed", ExitCode.NEGATIVE: "failed", ExitCode.INCONCLUSIVE: "inconclusive"}
    return render_document(
        "gate",
        status=status.get(report.exit_code, "no_verdict"),
        reason=headline(report),
        exit_code=report.exit_code,
        findings=[{"kind": "warning", "message": text} for text in warnings(report)],
        run=report.run,
        baseline=report.baseline,
        confirmed=report.confirmed,
        time=report.time,
        counts={answer.value: count for answer, count in report.counts.items()},
        results=[{**_line(case, report.time), "looks": plain(case.looks)} for case in report.cases],
    )


def render_csv(report: GateReport) -> str:
    """Write the report as CSV, a line per case."""
    return render_lines([_line(case, report.time) for case in report.cases])


def headline(report: GateReport) -> str:
    """Write the outcome in one line: `GATE FAILED  1 slower, 1 new fail of 5 cases, pr-42 against main`."""
    counts, failed = report.counts, Counter(word_of(case).lower() for case in report.failed)
    judged = len(report.cases) - counts.get(Answer.NOT_COMPARABLE, 0)
    if report.failed:
        what = f"{', '.join(f'{count} {word}' for word, count in failed.items())} of {len(report.cases)} cases"
    elif report.exit_code is ExitCode.INCONCLUSIVE:
        what = f"{counts.get(Answer.UNCLEAR, 0)} of {len(report.cases)} cases unclear"
    else:
        what = f"{judged} of {len(report.cases)} cases judged"
    looked = "" if report.confirmed or not failed else ", slow cases not measured a second time"
    held = ", wall times" if report.time is Time.WALL else ""
    return f"{HEADLINES[report.exit_code]}  {what}, {report.run} against {report.baseline}{held}{looked}"


def warnings(report: GateReport) -> list[str]:
    """Return the warnings and the changes that kbench made."""
    found = list(report.notes)
    warned = [case for case in report.cases if case.outcome is GateOutcome.WARNED]
    unclear = sum(case.verdict.status is Answer.UNCLEAR for case in warned)
    if unclear and report.exit_code is not ExitCode.INCONCLUSIVE:
        found.append(f"{unclear} unclear, not counted (`gate.unclear`)")
    return found


def hints(report: GateReport) -> list[str]:
    """Give commands that reproduce the worst failure of each kind, and accept slow-downs."""
    broken = [case for case in report.failed if case.verdict.status is Answer.NEW_FAIL]
    slow = [case for case in report.failed if case.verdict.status is not Answer.NEW_FAIL]
    found = [f"reproduce with `kbench verify {_arguments(case)}`" for case in broken[:1]]
    for case in slow[:1]:
        found.append(f"reproduce with `kbench run {_arguments(case)} --processes 12`")
        accept = f"`kbench baseline set {report.run}`"
        if case.verdict.status is not Answer.SLOWER:  # creep: a new version of the baseline is no step
            accept = f'a wider `slower` in `[tool.kbench.gate.override."{case.name}"]`'
        found.append(f"if intended, {accept}, and commit it with the reason")
    if any(case.old is None for case in report.cases) and any(case.new is None for case in report.cases):
        found.append(f"if a problem, solution or case was renamed: `kbench baseline set {report.run}`")
    unclear = [case for case in report.cases if case.verdict.status is Answer.UNCLEAR]
    if report.exit_code is not ExitCode.INCONCLUSIVE or not unclear:
        return found
    if any(case.verdict.reason_code == "spans_margin" and not case.verdict.processes_to_decide for case in unclear):
        way = "measure on a quieter machine, or ask for less with `--slower`: more processes would not decide it"
    else:
        more = max(case.verdict.processes_to_decide or 12 for case in unclear)  # 12 where the number is not known
        way = f"measure with more processes: `kbench run {_arguments(unclear[0])} --processes {more}`"
    return [*found, way]


def _arguments(case: GatedCase) -> str:
    """Return the arguments of `kbench run` or `verify` that judge this case again, under the same conditions."""
    if case.new is None:
        return shlex.join([case.problem, case.solution, "--case", case.case])
    problem, solution, entry = case.new.place
    words = [problem or case.problem, solution_word(solution, case.solution, entry), "--case", case.case]
    row = case.new.measurement.row
    with contextlib.suppress(KbenchError, OSError):  # without its problem, which constants were set is not known
        found = registry.find_problem(words[0], Settings())  # a problem of other places has a path
        by_hand = case_selection.set_by_hand(found, case.case, constants_of(row.overrides))
        words += [word for name, value in by_hand.items() for word in ("--set", f"{name}={text_of(value)}")]
    words += ["--device", "cpu"] if is_timed_by_host(row.device) else []
    words += ["--mode", row.mode] if row.mode not in {"", "cold"} else []
    words += ["--allow-tf32"] if row.tf32 else []
    return shlex.join([*words, *(["--eval"] if evaluates(row) else [])])


def solution_word(path: str, name: str, entry: str) -> str:
    """Return what names a row's solution on a command line: `file.py:function`, a path, a module's function, a name."""
    return entry if ":" in entry else f"{path}:{entry}" if path and entry else path or name


def worst_first(cases: Sequence[GatedCase]) -> list[GatedCase]:
    """Sort cases by their effect on the gate, then by slow-down, the largest first."""
    ranks = (GateOutcome.FAILED, GateOutcome.NO_VERDICT, GateOutcome.INCONCLUSIVE, GateOutcome.WARNED, GateOutcome.OK)
    return sorted(cases, key=lambda case: (ranks.index(case.outcome), -case.slowdown))


def word_of(case: GatedCase) -> str:
    """Write the verdict, and the rule if it was not the margin."""
    return "CREEP" if case.deciding is case.creep else WORDS[case.verdict.status]


def _line(case: GatedCase, time: Time) -> dict[str, Any]:
    """Return a line of the CSV."""
    verdict = case.deciding
    return {
        **cells(case, verdict, time),
        "outcome": case.outcome.value,
        "reason_code": verdict.reason_code,
        "margin": verdict.margin,
        "between_devices": verdict.between_devices,
        "looks": len(case.looks),
    }


def _table(cases: Sequence[GatedCase], shared: Collection[tuple[str, str]]) -> Table:
    rows = [
        {
            "verdict": word_of(case),
            "case": case.name,
            ">change": change_of(case.deciding),
            ">bounds": bounds_of(case.deciding),
            ">measurements": str(len(case.looks)) if case.looks else "",
            "reason": unshared_reason(word_of(case), case.deciding, shared),
        }
        for case in worst_first(cases)
    ]
    return table(rows, wraps={"reason"})


def render_junit(report: GateReport) -> str:
    """Write the document: a failed case is a failure, a case that could not be judged an error.

    Without cases it has one error: viewers show an empty suite green.
    """
    found = Counter(case.outcome for case in report.cases)
    counts = {
        "tests": max(len(report.cases), 1),
        "failures": found[GateOutcome.FAILED],
        "errors": found[GateOutcome.NO_VERDICT] + found[GateOutcome.INCONCLUSIVE] + (not report.cases),
        "skipped": found[GateOutcome.WARNED],
    }
    suite = Xml.Element("testsuite", name=f"kbench gate {report.run} against {report.baseline}")
    suite.attrib |= {name: str(count) for name, count in counts.items()}
    suite.extend(_test_case(case) for case in report.cases)
    if not report.cases:
        nothing = Xml.SubElement(suite, "testcase", classname="kbench", name="gate")
        Xml.SubElement(nothing, "error", message=headline(report))
    Xml.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(suite, encoding="unicode")


def _test_case(case: GatedCase) -> Xml.Element:
    element = Xml.Element("testcase", classname=f"{case.problem}.{case.solution}", name=case.case)
    if case.new is not None and case.new.time_ns is not None:
        element.set("time", f"{case.new.time_ns / 1e9:.9f}")
    message = _clean(f"{word_of(case)}: {case.deciding.message}")
    if case.outcome is GateOutcome.OK:
        Xml.SubElement(element, "system-out").text = message
    elif case.outcome is GateOutcome.WARNED:
        Xml.SubElement(element, "skipped", message=message)
    else:
        kind = "failure" if case.outcome is GateOutcome.FAILED else "error"
        Xml.SubElement(element, kind, type=word_of(case), message=message)
    return element


def _clean(text: str) -> str:
    """Drop characters that XML 1.0 does not allow; messages come from candidates."""
    return "".join(c for c in text if c in "\t\n" or (c >= " " and not "\ud800" <= c <= "\udfff" and c < "\ufffe"))
