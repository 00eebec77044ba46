"""A gate's report as JUnit XML, which every CI system reads: one test case per gated case."""

from collections import Counter
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as Xml

from kbench.gate.rule import GatedCase, GateOutcome, GateReport
from kbench.report.gate import headline, word_of


def render_junit(report: GateReport) -> str:
    """Write the document; a failed case is a failure, a case that could not be judged an error."""
    found = Counter(case.outcome for case in report.cases)
    counts = {
        "failures": str(found[GateOutcome.FAILED]),
        "errors": str(found[GateOutcome.NO_VERDICT] + found[GateOutcome.INCONCLUSIVE]),
        "skipped": str(found[GateOutcome.WARNED]),
    }
    title = f"{report.run} against {report.baseline}"
    return render_suite("gate", title, [_case(case) for case in report.cases], counts, empty=headline(report))


def render_suite(
    command: str, title: str, cases: Sequence[Xml.Element], counts: Mapping[str, str], *, empty: str
) -> str:
    """Write the suite of a command; without cases it has one error, `empty`: viewers show an empty suite green."""
    suite = Xml.Element("testsuite", {"name": f"kbench {command} {title}", "tests": str(max(len(cases), 1)), **counts})
    suite.extend(cases)
    if not cases:
        suite.set("errors", "1")
        nothing = Xml.SubElement(suite, "testcase", classname="kbench", name=command)
        Xml.SubElement(nothing, "error", message=empty)
    Xml.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(suite, encoding="unicode")


def _case(case: GatedCase) -> Xml.Element:
    element = Xml.Element("testcase", classname=f"{case.problem}.{case.solution}", name=case.case)
    if case.new is not None and case.new.time_ns is not None:
        element.set("time", f"{case.new.time_ns / 1e9:.9f}")
    message = clean(f"{word_of(case)}: {case.deciding.message}")
    if case.outcome is GateOutcome.OK:
        Xml.SubElement(element, "system-out").text = message
    elif case.outcome is GateOutcome.WARNED:
        Xml.SubElement(element, "skipped", message=message)
    else:
        kind = "failure" if case.outcome is GateOutcome.FAILED else "error"
        Xml.SubElement(element, kind, type=word_of(case), message=message)
    return element


def clean(text: str) -> str:
    """Drop characters that XML 1.0 does not allow; messages come from candidates."""
    return "".join(c for c in text if c in "\t\n" or (c >= " " and not "\ud800" <= c <= "\udfff" and c < "\ufffe"))
