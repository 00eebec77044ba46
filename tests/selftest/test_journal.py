"""What a selftest keeps until all is judged, and what of it holds when it goes on."""

from pathlib import Path

import pytest
from records import make_check

from kbench.core.errors import MachineError, ResultsError
from kbench.selftest import journal
from kbench.selftest.checks import Checked
from kbench.selftest.journal import Past, SelftestArguments, SelftestJournal, SelftestRecord, still_holds

HERE = {"device": "H100", "isolation": "full", "torch": "2.11.0", "kbench's code": "abc"}
BASES = {name: HERE | {"the fixture": f"hash of {name}"} for name in ("one", "two", "three")}
NEW = SelftestRecord(arguments=SelftestArguments(device="cpu", names=tuple(BASES), corpus=Path("/corpus")))


def check(name: str, status: str = "wrong_value", complaint: str | None = None) -> Checked:
    more = {"reason": "no\nmore", "findings": ("a", "b"), "speedup": 1.25, "expected": ("wrong_value", "passed")}
    return make_check(name=name, status=status, complaint=complaint, **more)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "one.journal.jsonl"


def sit(path: Path, *checks: Checked, **changes: str) -> Past:
    """Hold a sitting that judges these, under changed conditions; return what held when it began."""
    record = journal.read(path) if path.exists() else NEW
    with SelftestJournal(path, record) as writer:
        for one in checks:
            writer.append(one, BASES[one.name] | changes)
    return still_holds(record, BASES)


def test_what_was_written_is_read_and_holds(path) -> None:
    first = check("one"), check("two", complaint="passed")
    assert sit(path, *first) == Past()
    record = journal.read(path)
    assert record.arguments == NEW.arguments
    assert record.whole_bytes == path.stat().st_size
    assert sit(path, check("three")).checks == first, "a miss stays a miss"
    record = journal.read(path)
    past = still_holds(record, BASES)
    assert [one.name for one in past.checks] == ["one", "two", "three"]
    assert past.sittings == 2
    assert past.elapsed_s == record.lines[1].at_s + record.lines[2].at_s


def test_a_line_without_its_end_is_cut_off_by_who_goes_on(path) -> None:
    sit(path, check("one"), check("two"))
    whole = path.read_bytes()
    for cut in (1, 40):
        path.write_bytes(whole[:-cut])
        assert [one.name for one in sit(path, check("three")).checks] == ["one"]
        assert [line.check.name for line in journal.read(path).lines] == ["one", "three"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"device": "H200"}, "device was H200 and is H100"),
        ({"isolation": "none"}, "isolation was none and is full"),
        (
            {"torch": "2.12.0", "kbench's code": "def"},
            "torch was 2.12.0 and is 2.11.0, kbench's code was def and is abc",
        ),
    ],
)
def test_what_was_judged_under_other_conditions_is_judged_again(path, changes, why) -> None:
    sit(path, check("one"), check("two"), **changes)
    sit(path, check("two"))
    past = still_holds(journal.read(path), BASES)
    assert ([one.name for one in past.checks], past.sittings) == (["two"], 1)
    assert past.again == (f"1 judged again: {why}",)


def test_an_edited_fixture_and_a_failure_of_kbench_are_judged_again_and_a_removed_one_is_forgotten(path) -> None:
    sit(path, check("one"), check("two", "harness_error"), check("three", "harness_error"))
    bases = {"one": HERE | {"the fixture": "new"}, "two": BASES["two"]}
    assert still_holds(journal.read(path), bases) == Past(
        again=("1 judged again: the fixture has changed", "1 judged again: it was harness_error")
    )


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
        ('{"selftest":{"format":1}}\n', "not the journal"),
        ('{"selftest":{"format":9,"device":"cpu"}}\n', "format 9"),
        ('{"selftest":{"format":1,"device":"cpu"}}\n{"check":1}\n', "line 2"),
        ('{"selftest":{"format":1,"device":"cpu"}}\n[]\n', "line 2"),
    ],
)
def test_what_is_no_journal_of_a_selftest_is_refused(path, text, match) -> None:
    path.write_text(text)
    with pytest.raises(ResultsError, match=match):
        journal.read(path)
