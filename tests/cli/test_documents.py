"""Every command prints one JSON document with the keys that all have in common, whatever happens."""

import os
import subprocess
import sys
from pathlib import Path

import fakes
import pytest
from records import make_run

from kbench import doctor
from kbench.doctor import Check, Health

ROOT = Path(fakes.__file__).parent.parent
ACCEPT = ("--until", "2099-12-31", "--up-to", "5%", "--reason", "meant")


@pytest.fixture
def saved():
    """Two runs whose `fast` solution takes half of the reference's time, the first of them a baseline."""
    ratios = [0.5, 0.5002, 0.4999]
    for name in ("old", "new"):
        make_run(Path("results"), name, {"fast": ratios}, wobble=0.001)


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
        (("config",), "ok"),
        (("explain",), "ok"),
        (("explain", "fragile"), "ok"),
        (("show", "new"), "passed"),
        (("export", "new"), "passed"),
        (("export", "new", "--to", "md", "-o", "out.md"), "ok"),
        (("compare", "old", "new"), "ok"),
        (("baseline", "set", "old"), "ok"),
        (("baseline", "show"), "ok"),
        (("baseline", "accept", "fast/small", "--run", "new", *ACCEPT), "ok"),
        (("new", "problem", "plus"), "ok"),
        (("new", "solution", "group_norm", "mine"), "ok"),
    ],
)
def test_commands_that_work(kbench, saved, arguments, status):
    assert document(kbench, *arguments)["status"] == status


def test_findings_of_the_doctor_are_what_is_not_ok(kbench, monkeypatch):
    checks = (
        Check(code="D05", name="c++", status=Health.OK, detail="12.2"),
        Check(code="D07", name="clocks", status=Health.WARN, detail="1,230 MHz", fix="let it cool down"),
    )
    monkeypatch.setattr(doctor, "examine", lambda *_, **__: iter(checks))
    found = document(kbench, "doctor")
    assert found["findings"] == [{"code": "D07", "kind": "warn", "message": "clocks: 1,230 MHz"}]


def test_findings_of_a_gate_are_its_warnings(kbench, saved):
    for name in ("base", "now"):
        make_run(Path("results"), name, {"fast": [0.5, 0.5002, 0.4999], "noisy": [0.4, 0.5, 0.7]}, wobble=0.001)
    kbench("baseline", "set", "base")
    found = document(kbench, "gate", "now")
    assert [finding["kind"] for finding in found["findings"]] == ["warning"]


def test_a_comparison_of_two_sides_has_a_speedup(kbench, saved):
    make_run(Path("results"), "faster", {"fast": [0.25, 0.2501, 0.2499]}, wobble=0.001)
    assert document(kbench, "compare", "old", "faster")["speedup"] == pytest.approx(2.0, rel=1e-2)
    assert document(kbench, "compare", "old", "new", "faster")["speedup"] is None


def test_export_says_where_it_wrote_and_refuses_two_documents_on_stdout(kbench, saved):
    found = document(kbench, "export", "new", "-o", "out.csv")
    assert found["path"] == "out.csv"
    assert Path("out.csv").read_text() == kbench("show", "new", "--format", "csv").out
    done = kbench("export", "new", "--to", "md", "--json")
    assert "`--json` contradicts `--to md` on stdout" in done.out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [("list",), ("list", "--json"), ("explain", "fragile"), ("list", "absent")])
def test_a_full_stdout_is_the_machines_fault_and_a_full_stderr_nobodys(arguments):
    command = [sys.executable, "-m", "kbench", *arguments]
    failing = "absent" in arguments
    with Path("/dev/full").open("w") as full:
        stdout = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        stderr = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=full, text=True, cwd=ROOT)
    assert stdout.returncode == (2 if failing else 3)
    assert stdout.stderr.startswith("error: no problem" if failing else "error: stdout cannot be written: No space")
    assert "Traceback" not in stdout.stderr
    assert stderr.returncode == (2 if failing else 0)


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_changes_no_exit_code(redirection):
    command = f"{sys.executable} -m kbench list {redirection}"
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_has_had_enough_changes_no_verdict(tmp_path):
    code = "from kbench.cli.output import Output; Output().data('x' * 100_000); raise SystemExit(7)"
    command = f'{sys.executable} -c "{code}" | head -c 1; exit ${{PIPESTATUS[0]}}'
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", command], check=False, capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "x", "")
