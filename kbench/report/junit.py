"""A gate's report as JUnit XML, which every CI system reads: one test case per gated case."""

from xml.etree import ElementTree as Xml

from kbench.gate.rule import GatedCase, GateOutcome, GateReport
from kbench.report.gate import deciding, headline, word_of


def render_junit(report: GateReport) -> str:
    """Write the document; what failed is a failure, what could not be judged is an error."""
    failures = sum(case.outcome is GateOutcome.FAILED for case in report.cases)
    errors = sum(case.outcome in {GateOutcome.NO_VERDICT, GateOutcome.INCONCLUSIVE} for case in report.cases)
    suite = Xml.Element(
        "testsuite",
        name=f"kbench gate {report.run} against {report.baseline}",
        tests=str(max(len(report.cases), 1)),
        failures=str(failures),
        errors=str(errors if report.cases else 1),
        skipped=str(sum(case.outcome is GateOutcome.WARNED for case in report.cases)),
    )
    for case in report.cases:
        suite.append(_case(case))
    if not report.cases:
        # An empty suite would be green in most viewers, and a gate without cases is not.
        empty = Xml.SubElement(suite, "testcase", classname="kbench", name="gate")
        Xml.SubElement(empty, "error", message=headline(report))
    Xml.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(suite, encoding="unicode")


def _case(case: GatedCase) -> Xml.Element:
    element = Xml.Element("testcase", classname=f"{case.problem}.{case.solution}", name=case.case)
    if case.new is not None and case.new.time_ns is not None:
        element.set("time", f"{case.new.time_ns / 1e9:.9f}")
    message = clean(f"{word_of(case)}: {deciding(case).message}")
    match case.outcome:
        case GateOutcome.FAILED:
            Xml.SubElement(element, "failure", type=word_of(case), message=message)
        case GateOutcome.NO_VERDICT | GateOutcome.INCONCLUSIVE:
            Xml.SubElement(element, "error", type=word_of(case), message=message)
        case GateOutcome.WARNED:
            Xml.SubElement(element, "skipped", message=message)
        case GateOutcome.OK:
            Xml.SubElement(element, "system-out").text = message
    return element


def clean(text: str) -> str:
    """Drop what XML 1.0 cannot hold; messages come from candidates."""
    return "".join(c for c in text if c in "\t\n" or (c >= " " and not "\ud800" <= c <= "\udfff" and c < "\ufffe"))
