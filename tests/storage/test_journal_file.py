"""The file of a journal. Kills and cut lines are tried where journals are written: `tests/sweep`, `tests/selftest`."""

import pytest

from kbench.core.errors import MachineError, UsageError
from kbench.storage.journal_file import JournalFile, find, whole_lines


def test_a_file_where_a_folder_is_needed_is_no_name_that_is_taken(tmp_path) -> None:
    (tmp_path / "results").write_text("")
    with pytest.raises(MachineError, match="where a folder is needed") as error:
        JournalFile(tmp_path / "results" / "one.journal.jsonl", way_out="elsewhere").__enter__()
    assert error.value.hint == "elsewhere"


def test_nothing_is_taken_after_the_end(tmp_path) -> None:
    path = tmp_path / "one.journal.jsonl"
    with JournalFile(path) as journal:
        journal.write({"a": 1})
    with pytest.raises(MachineError, match="cannot be written"):
        journal.write({"a": 2})
    assert whole_lines(path) == ([b'{"a":1}'], path.stat().st_size)


def test_lines_that_another_process_added_since_it_was_read_are_not_cut_off(tmp_path) -> None:
    path = tmp_path / "one.journal.jsonl"
    with JournalFile(path) as journal:
        journal.write({"a": 1})
    _, read_bytes = whole_lines(path)
    with path.open("a") as file:
        file.write('{"a":2}\n{"a"')
    with pytest.raises(MachineError, match="another process has added to `one`") as error:
        JournalFile(path, whole_bytes=read_bytes).__enter__()
    assert error.value.hint == "type the command again"
    lines, whole_bytes = whole_lines(path)
    assert len(lines) == 2
    with JournalFile(path, whole_bytes=whole_bytes) as journal:
        journal.write({"a": 3})
    assert whole_lines(path)[0] == [b'{"a":1}', b'{"a":2}', b'{"a":3}'], "half of a line is"


@pytest.mark.parametrize("left", ["", '{"sweep":{"run"'])
def test_a_name_is_free_where_its_journal_was_killed_before_the_first_line(tmp_path, left) -> None:
    path = tmp_path / "one.journal.jsonl"
    path.write_text(left)
    with JournalFile(path) as journal:
        with pytest.raises(MachineError, match="another process is running `one`"):
            JournalFile(path).__enter__()
        journal.write({"a": 1})
        with pytest.raises(FileExistsError):
            JournalFile(path).__enter__()
    assert whole_lines(path)[0] == [b'{"a":1}']
    with pytest.raises(FileExistsError):
        JournalFile(path).__enter__()


@pytest.mark.parametrize(
    ("files", "name", "message", "hint"),
    [
        (["done.csv"], "done", "`done` was not broken off, so nothing is left to resume", "in {}/done.csv"),
        (["done.csv"], "done.csv", "`done.csv` was not broken off", "{}/done.csv"),
        (["half.csv", "half.journal.jsonl"], "hafl", "no run named `hafl`", "did you mean `half`?"),
        (["half.csv", "half.journal.jsonl"], "x", "no run named `x`", "left to resume in {}: half"),
        (["done.csv"], "x", "no run named `x`", "left to resume in {}: nothing"),
    ],
)
def test_a_name_that_cannot_be_resumed_says_why(tmp_path, files, name, message, hint) -> None:
    for file in files:
        (tmp_path / file).touch()
    with pytest.raises(UsageError) as error:
        find("run", name, tmp_path)
    assert message in str(error.value)
    assert hint.format(tmp_path) in error.value.hint
