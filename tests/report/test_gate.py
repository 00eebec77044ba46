"""Reports of a gate at their edges: more cases than GitHub shows, hostile texts, nothing at all."""

from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
import tiny_corpus
from records import make_run

from kbench.compare import measured
from kbench.core.errors import ExitCode
from kbench.core.verdict import Answer, Verdict
from kbench.gate.rule import GatedCase, GateOutcome, report
from kbench.report import gate
from kbench.report.table import as_markdown, as_text

HOSTILE = "a\x00b\x1b[31m %0A::error::x\n::warning::y | <b>&amp;\ud800"


def gated_case(number: int, outcome: GateOutcome, status: Answer, message: str = "above +0.5 %") -> GatedCase:
    verdict = Verdict(status=status, reason_code="x", message=message, ratio=1 + number / 100, low=1.0, high=1.2)
    return GatedCase(problem="p", solution="s", case=f"c{number}", outcome=outcome, verdict=verdict)


def test_ten_annotations_at_most_worst_first():
    cases = [gated_case(n, GateOutcome.FAILED, Answer.SLOWER) for n in range(1, 31)]
    lines = gate.render_annotations(report("new", "main", cases, confirmed=True)).splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("::error title=SLOWER::p/s/c30 +30")
    assert lines[-1] == "::error title=kbench gate::21 more cases, in the step summary"


def test_a_green_gate_is_a_notice_and_an_empty_one_an_error():
    good = report("new", "main", [gated_case(1, GateOutcome.OK, Answer.SAME)], confirmed=True)
    assert (
        gate.render_annotations(good)
        == "::notice title=kbench gate::GATE PASSED  1 of 1 cases judged, new against main"
    )
    empty = report("new", "main", [], confirmed=True)
    assert empty.exit_code is ExitCode.NOTHING_SELECTED
    assert gate.render_annotations(empty).startswith("::error title=kbench gate::NOTHING TO JUDGE")


def test_hostile_messages_stay_data():
    found = report("new", "main", [gated_case(1, GateOutcome.FAILED, Answer.NEW_FAIL, HOSTILE)], confirmed=True)
    annotations = gate.render_annotations(found)
    assert annotations.count("\n") == 0
    assert annotations.count("::error") == 2, "the second is inside the message, behind an escaped line end"
    assert "%250A" in annotations
    suite = Xml.fromstring(gate.render_junit(found).encode())
    assert "a" in suite.find("testcase/failure").get("message")
    text = as_text(gate.blocks(found))
    assert "\x1b" not in text
    assert "<b>" not in as_markdown(gate.blocks(found, verbosity=1)).replace("\\<b\\>", "")


def test_a_summary_that_is_too_large_is_cut_at_a_line():
    cases = [gated_case(n, GateOutcome.FAILED, Answer.SLOWER, f"{n} " + "x" * 5000) for n in range(300)]
    text = gate.render_step_summary(report("new", "main", cases, confirmed=True))
    assert len(text.encode()) <= gate.SUMMARY_BYTES
    assert text.endswith("The rest did not fit.")


def test_an_empty_suite_is_not_green_in_junit():
    suite = Xml.fromstring(gate.render_junit(report("new", "main", [], confirmed=True)).encode())
    assert (suite.get("tests"), suite.get("errors")) == ("1", "1")


def test_creep_is_named_and_hinted():
    creep = Verdict(status=Answer.SLOWER, reason_code="creep", message="slower than release", ratio=1.03, high=1.032)
    verdict = Verdict(status=Answer.SAME, reason_code="within", message="within")
    case = GatedCase(problem="p", solution="s", case="c", outcome=GateOutcome.FAILED, verdict=verdict, creep=creep)
    text = as_text(gate.blocks(report("new", "main", [case], confirmed=True)))
    assert "CREEP" in text
    assert 'a wider `slower` in `[tool.kbench.gate.override."p/s/c"]`' in text


@pytest.mark.parametrize(
    ("told", "answer", "hint"),
    [
        (
            {"problem_path": "mine/scale.py", "solution_path": "b dir/fast.py", "entry": "Model"},
            Answer.SLOWER,
            "kbench run mine/scale.py 'b dir/fast.py:Model' --case small --processes 12",
        ),
        (
            {"device": "cpu", "mode": "warm", "tf32": True},
            Answer.SLOWER,
            "kbench run group_norm fast --case small --device cpu --mode warm --allow-tf32 --processes 12",
        ),
        (
            {"problem_path": "scale.py", "overrides": '{"n": 37, "rows": 2}'},
            Answer.NEW_FAIL,
            "kbench verify scale.py fast --case small --set n=37",
        ),
    ],
)
def test_a_hint_repeats_files_conditions_and_what_was_set_by_hand(own_folder, told, answer, hint):
    constants = 'n, rows = 4, 8\nCASES = {"small": {"rows": 2}}'
    Path("scale.py").write_text(tiny_corpus.problem(given="torch.rand(n)", constants=constants))
    ((key, side),) = measured(make_run(own_folder, "pr", {"fast": [0.6]}, **told)).items()
    verdict = Verdict(status=answer, reason_code="x", message="", ratio=1.1, low=1.0, high=1.2)
    case = GatedCase(**key._asdict(), outcome=GateOutcome.FAILED, verdict=verdict, new=side)
    assert gate.hints(report("pr", "main", [case], confirmed=True))[0] == f"reproduce with `{hint}`"
