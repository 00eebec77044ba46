"""Every command prints one JSON document with the keys that all have in common, whatever happens."""

from pathlib import Path

import pytest
from records import FIVE, make_run

from kbench import doctor
from kbench.doctor import Check, Health


@pytest.fixture
def saved():
    """Two runs whose `fast` solution takes half of the reference's time, the first of them a baseline."""
    for name in ("old", "new"):
        make_run(Path("results"), name, {"fast": FIVE[:3]}, wobble=0.001)


def document(kbench, *arguments):
    """Run a command with `--json`; return its one document, whose common keys hold what they should."""
    done = kbench(*arguments, "--json")
    found = done.document
    assert isinstance(found["findings"], list)
    assert isinstance(found["results"], list)
    assert all(finding["message"] for finding in found["findings"])
    assert (found["schema"], found["command"], found["exit_code"]) == (1, arguments[0], done.code)
    return found


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("list",), "ok"),
        (("list", "--runs"), "ok"),
        (("list", "group_norm", "--cases"), "ok"),
        (("explain",), "ok"),
        (("explain", "crashed"), "ok"),
        (("show", "new"), "passed"),
        (("compare", "old", "new"), "ok"),
        (("baseline", "set", "old"), "ok"),
        (("baseline", "show"), "ok"),
        (("new", "problem", "plus"), "ok"),
        (("new", "solution", "group_norm", "mine"), "ok"),
    ],
)
def test_commands_that_work(kbench, saved, arguments, status):
    assert document(kbench, *arguments)["status"] == status


def test_findings_of_the_doctor_are_what_is_not_ok(kbench, monkeypatch):
    checks = (
        Check(name="c++", status=Health.OK, detail="12.2"),
        Check(name="clocks", status=Health.WARN, detail="1,230 MHz", fix="let it cool down"),
    )
    monkeypatch.setattr(doctor, "examine", lambda *_, **__: iter(checks))
    found = document(kbench, "doctor")
    assert found["findings"] == [{"code": "clocks", "kind": "warn", "message": "1,230 MHz"}]


def test_findings_of_a_gate_are_its_warnings(kbench, saved):
    for name in ("base", "now"):
        make_run(Path("results"), name, {"fast": FIVE[:3], "noisy": [0.4, 0.5, 0.7]}, wobble=0.001)
    kbench("baseline", "set", "base")
    found = document(kbench, "gate", "now")
    assert [finding["kind"] for finding in found["findings"]] == ["warning"]


def test_a_comparison_of_two_sides_has_a_speedup(kbench, saved):
    make_run(Path("results"), "faster", {"fast": [0.25, 0.2501, 0.2499]}, wobble=0.001)
    assert document(kbench, "compare", "old", "faster")["speedup"] == pytest.approx(2.0, rel=1e-2)
    assert document(kbench, "compare", "old", "new", "faster")["speedup"] is None
