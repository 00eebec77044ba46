"""What a selftest keeps until all is judged, and what of it holds when it goes on."""

from pathlib import Path

import pytest
from records import make_check

from kbench.core.errors import MachineError, ResultsError
from kbench.selftest import journal
from kbench.selftest.checks import Checked
from kbench.selftest.journal import KeptCheck, SelftestArguments, SelftestJournal, SelftestRecord

BASES = {name: f"hash of {name}" for name in ("one", "two", "three")}
NEW = SelftestRecord(arguments=SelftestArguments(device="cpu", names=tuple(BASES), corpus=Path("/corpus")))


def check(name: str, status: str = "wrong_value", complaint: str | None = None) -> Checked:
    more = {"reason": "no\nmore", "findings": ("a", "b"), "speedup": 1.25, "expected": ("wrong_value", "passed")}
    return make_check(name=name, status=status, complaint=complaint, **more)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "one.journal.jsonl"


def judge(path: Path, *checks: Checked, elapsed_s: float = 1.0) -> dict[str, Checked]:
    """Write these in a command of their own; return what was valid when it began."""
    record = journal.read(path) if path.exists() else NEW
    with SelftestJournal(path, record) as writer:
        for one in checks:
            writer.append(KeptCheck(check=one, basis=BASES[one.name], elapsed_s=elapsed_s))
    return record.still_valid(BASES)


def test_what_was_written_is_read_and_valid(path) -> None:
    first = check("one"), check("two", complaint="passed")
    assert judge(path, *first) == {}
    record = journal.read(path)
    assert (record.arguments, record.whole_bytes) == (NEW.arguments, path.stat().st_size)
    assert judge(path, check("three"), elapsed_s=7.5) == {"one": first[0], "two": first[1]}, "a miss stays a miss"
    record = journal.read(path)
    assert [*record.still_valid(BASES)] == ["one", "two", "three"]
    assert (NEW.elapsed_s, record.elapsed_s) == (0.0, 7.5)


def test_a_verdict_of_other_conditions_and_a_failure_of_kbench_are_not_valid(path) -> None:
    judge(path, check("one"), check("two", "harness_error"), check("three"))
    record = journal.read(path)
    assert record.still_valid({"one": "another hash", "two": BASES["two"]}) == {}, "`three` is no fixture any more"
    judge(path, check("two"))
    assert [*journal.read(path).still_valid(BASES)] == ["one", "three", "two"]


def test_two_that_begin_in_one_second_have_two_journals_and_nobody_shares_one(path) -> None:
    with SelftestJournal(path, NEW) as first, SelftestJournal(path, NEW) as second:
        assert (first.path, second.path) == (path, path.with_name("one-2.journal.jsonl"))
        with pytest.raises(MachineError, match="another process is running `one`"):
            SelftestJournal(path, journal.read(path)).__enter__()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "not the journal"),
        ('{"sweep":{}}\n', "not the journal"),
        ('{"selftest":{}}\n', "not the journal"),
        ('{"selftest":{"device":"cpu"}}\n{"check":1}\n', "line 2"),
        ('{"selftest":{"device":"cpu"}}\n[]\n', "line 2"),
    ],
)
def test_what_is_no_journal_of_a_selftest_is_refused(path, text, match) -> None:
    path.write_text(text)
    with pytest.raises(ResultsError, match=match):
        journal.read(path)
