"""What a selftest keeps until all is judged, and what of it holds when it goes on."""

from pathlib import Path

import pytest
from records import make_check

from kbench.core.errors import ResultsError
from kbench.engine import journal
from kbench.engine.journal import Header, Journal
from kbench.selftest.checks import Checked, KeptCheck, still_valid
from kbench.storage.json_values import plain

BASES = {name: f"hash of {name}" for name in ("one", "two", "three")}
HEADER = Header(
    run="one", started_utc="2026-11-23T00:00:00+00:00", arguments={"corpus": Path("/c")}, command="selftest"
)


def check(name: str, status: str = "wrong_value", complaint: str | None = None) -> Checked:
    more = {"reason": "no\nmore", "findings": ("a", "b"), "speedup": 1.25, "expected": ("wrong_value", "passed")}
    return make_check(name=name, status=status, complaint=complaint, **more)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "one.journal.jsonl"


def judge(path: Path, *checks: Checked, elapsed_s: float = 1.0) -> dict[str, Checked]:
    """Write these in a command of their own; return what was valid when it began."""
    record = journal.read(path, KeptCheck) if path.exists() else None
    with Journal(path, HEADER, resumed=record) as writer:
        for one in checks:
            writer.write(plain(KeptCheck(check=one, basis=BASES[one.name], elapsed_s=elapsed_s)))
    return still_valid(record.lines if record else (), BASES)


def test_what_was_written_is_read_and_valid(path) -> None:
    first = check("one"), check("two", complaint="passed")
    assert judge(path, *first) == {}
    record = journal.read(path, KeptCheck)
    assert (record.header.arguments, record.whole_bytes) == ({"corpus": "/c"}, path.stat().st_size)
    assert judge(path, check("three"), elapsed_s=7.5) == {"one": first[0], "two": first[1]}, "a miss stays a miss"
    record = journal.read(path, KeptCheck)
    assert [*still_valid(record.lines, BASES)] == ["one", "two", "three"]
    assert record.elapsed_s == 7.5


def test_a_verdict_of_other_conditions_and_a_failure_of_kbench_are_not_valid(path) -> None:
    judge(path, check("one"), check("two", "harness_error"), check("three"))
    lines = journal.read(path, KeptCheck).lines
    assert still_valid(lines, {"one": "another hash", "two": BASES["two"]}) == {}, "`three` is no fixture any more"
    judge(path, check("two"))
    assert [*still_valid(journal.read(path, KeptCheck).lines, BASES)] == ["one", "three", "two"]


def test_lines_of_another_command_are_refused(path) -> None:
    judge(path, check("one"))
    with pytest.raises(ResultsError, match="line 2"):
        journal.read(path)
