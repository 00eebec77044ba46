"""Journals: what is told is on the disk, whatever ends whoever writes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from sweeping import failed, passed, task

from kbench.core.errors import MachineError, ResultsError, UsageError
from kbench.core.model import Status
from kbench.engine import journal
from kbench.engine.journal import Header, Journal
from kbench.engine.task import TaskVerdict
from kbench.storage.journal_file import SUFFIX, find
from kbench.storage.json_values import plain

HEADER = Header(run="one", started_utc="2026-11-23T00:00:00+00:00", arguments={"problem": "p"})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"one{SUFFIX}"


def write(path: Path, *units: tuple[str, int, object], resumed=None) -> None:
    with Journal(path, HEADER, resumed=resumed) as writer:
        for key, process, result in units:
            before = (result,) * process
            writer.append(TaskVerdict(task=task(int(key[1:])), results=(*before, result)))


def test_what_was_written_is_read(path) -> None:
    results = (passed(0), passed(1))
    write(path, ("k1", 0, results[0]), ("k2", 0, failed(Status.CRASHED)), ("k1", 1, results[1]))
    record = journal.read(path)
    assert record.header == HEADER
    assert {key: len(found) for key, found in record.results.items()} == {"k1": 2, "k2": 1}
    assert [plain(one) for one in record.results["k1"]] == [plain(one) for one in results]
    assert record.whole_bytes == path.stat().st_size


def test_a_new_first_process_replaces_what_was(path) -> None:
    write(path, ("k1", 0, passed(0)), ("k1", 1, failed(Status.CRASHED)))
    write(path, ("k1", 0, passed(0, timed=False)), resumed=journal.read(path))
    (only,) = journal.read(path).results["k1"]
    assert only.outcome.timings == ()


def test_a_line_without_its_end_is_cut_off_by_who_goes_on(path) -> None:
    write(path, ("k1", 0, passed()))
    whole = path.read_bytes()
    for cut in (1, 40, len(whole.splitlines()[1]) - 1):
        path.write_bytes(whole + whole.splitlines(keepends=True)[1][:cut])
        record = journal.read(path)
        assert list(record.results) == ["k1"]
        write(path, ("k2", 0, passed()), resumed=record)
        assert list(journal.read(path).results) == ["k1", "k2"]


def test_pauses_between_commands_are_not_in_the_rate(path, monkeypatch) -> None:
    """Two units in the first hour, four in the half hour that follows a night."""
    clock = iter([0.0, 1800.0, 3600.0, 90_000.0, 90_300.0, 90_600.0, 91_200.0, 91_800.0])
    monkeypatch.setattr(journal, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    write(path, ("k1", 0, passed()), ("k2", 0, failed(Status.CRASHED)))
    before = journal.read(path)
    assert before.units_per_hour == pytest.approx(2.0)
    write(path, ("k2", 0, passed(0)), ("k2", 1, passed(1)), ("k3", 0, passed()), ("k4", 0, passed()), resumed=before)
    assert journal.read(path).units_per_hour == pytest.approx(6 / 1.5)


DAMAGED = {
    "not JSON": b"{no\n",
    "a process without the one before": b'{"key":"k9","process":3,"result":{}}\n',
    "no result": b'{"key":"k9","process":0,"result":{"outcome":1}}\n',
    "another thing": b"[]\n",
}


@pytest.mark.parametrize("line", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_journal_is_refused(path, line) -> None:
    write(path, ("k1", 0, passed()))
    path.write_bytes(path.read_bytes() + line)
    with pytest.raises(ResultsError, match="line 3"):
        journal.read(path)


@pytest.mark.parametrize(
    ("change", "match"),
    [({"kbench_version": "0.0.1"}, r"kbench 0\.0\.1"), ({"odd": 1}, "not the journal")],
)
def test_a_journal_of_another_kind_is_refused(path, change, match) -> None:
    write(path)
    told = json.loads(path.read_text())["sweep"] | change
    path.write_text(json.dumps({"sweep": told}) + "\n")
    with pytest.raises(ResultsError, match=match):
        journal.read(path)


def test_names_are_not_taken_twice_and_nobody_shares_a_journal(path) -> None:
    with Journal(path, HEADER):
        with pytest.raises(UsageError, match="exists already"):
            Journal(path, HEADER).__enter__()
        with pytest.raises(MachineError, match="another process"):
            Journal(path, HEADER, resumed=journal.read(path)).__enter__()
    assert find("sweep", "one", path.parent) == path
    assert find("sweep", "one.csv", path.parent) == path
    with pytest.raises(UsageError, match="no sweep named `two`") as none:
        find("sweep", "two", path.parent)
    assert "one" in none.value.hint


WRITER = """
import sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from types import SimpleNamespace
from sweeping import verdict
from kbench.engine.journal import Header
HEADER = Header(run="one", started_utc="", arguments={})
from kbench.engine.journal import Journal
with Journal(Path(sys.argv[1]), HEADER) as writer:
    for number in range(10_000):
        writer.append(verdict(number))
        print(number, flush=True)
"""


@pytest.mark.slow
def test_a_writer_that_is_killed_loses_nothing_that_it_told(path) -> None:
    here = Path(__file__).parents[1]
    command = [sys.executable, "-c", WRITER, str(path), str(here), str(here.parent)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    told = [process.stdout.readline() for _ in range(5)]
    time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    told += process.communicate()[0].splitlines(keepends=True)
    last = max(int(line) for line in told if line.endswith("\n"))
    assert last >= 4
    assert set(journal.read(path).results) >= {f"k{number}" for number in range(last + 1)}
