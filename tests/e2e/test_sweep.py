"""Sweeps by the command line: real judges and workers on the CPU, and kill -9 at random moments."""

import contextlib
import csv
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import commands
import pytest
from commands import finish
from tiny_corpus import BODIES, problem, solution
from waiting import wait_until

from kbench.core.model import Status
from kbench.engine import journal
from kbench.sandbox.process_table import members, processes
from kbench.storage.journal_file import SUFFIX

OF_A_JUDGE = 4
"""Processes below a sweep while it judges: nursery, judge, the judge's nursery, a worker."""
MOST_KILLS = 7
"""Of one sweep, which must come to an end."""


def write_corpus(folder: Path) -> None:
    """Write two problems, each with solutions of known ends, and one file without a model."""
    for factor in (2, 3):
        name = f"times_{factor}"
        (folder / "problems").mkdir(exist_ok=True)
        (folder / "problems" / f"{name}.py").write_text(problem(f"{factor} * x"))
        place = folder / "solutions" / name
        place.mkdir(parents=True)
        for kind, (body, _) in BODIES.items():
            (place / f"{kind}.py").write_text(solution(body.format(factor=factor)))
    (folder / "solutions/times_3/empty.py").write_text("x = 1\n")


WANTED = {(f"times_{factor}", kind): status for factor in (2, 3) for kind, (_, status) in BODIES.items()} | {
    ("times_3", "empty"): "import_failed"
}


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return commands.start(folder, "sweep", *arguments, "--devices", "cpu", KBENCH_CACHE=str(folder / "cache"))


NEW = ("problems", "solutions", "--until", "verify", "--level", "task", "--name", "one", "--lanes", "2")


def verdicts(folder: Path) -> dict[tuple[str, str], str]:
    with (folder / "results/one.csv").open(newline="") as stream:
        return {(row["problem"], row["solution"]): row["status"] for row in csv.DictReader(stream)}


def documents(kbench, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Sweep in this process, in the folder that it is in; return the exit code and the document."""
    done = kbench("sweep", *arguments, "--devices", "cpu", "--json")
    return done.code, done.document


@pytest.mark.slow
def test_a_sweep_and_its_resumption(kbench, own_folder) -> None:
    write_corpus(own_folder)
    code, told = documents(kbench, *NEW, "--junit", "one.xml")
    assert code == 1
    assert {(one["problem"], one["solution"]): one["status"] for one in told["results"]} == WANTED
    assert verdicts(own_folder) == WANTED
    assert told["summary"]["done"] == 9
    assert Path("one.xml").read_text().count("<failure") == 7

    again, told = documents(kbench, "--resume", "one")
    assert (again, told["summary"]["resumed"]) == (1, 9)
    assert not told["summary"]["stage_s"], "nothing was judged"

    Path("solutions/times_2/wrong.py").write_text(solution("return x + x"))
    _, told = documents(kbench, "--resume", "one")
    assert told["summary"]["resumed"] == 8, "another source is another task"
    assert verdicts(own_folder)["times_2", "wrong"] == "passed"


@pytest.mark.slow
def test_candidates_as_text_through_stdin(kbench, own_folder, monkeypatch) -> None:
    write_corpus(own_folder)
    of = {"problem": "problems/times_2.py"}
    lines = [
        {**of, "name": "text", "source": solution("return x + x"), "claim": 1.5},
        {**of, "solution": "eager", "tags": ["self"]},
    ]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(map(json.dumps, lines))))
    code, told = documents(kbench, "-", "--until", "verify", "--level", "task", "--name", "one")
    assert code == 0
    assert [(one["status"], one["claim"], one["tags"]) for one in told["results"]] == [
        ("passed", 1.5, []),
        ("passed", None, ["self"]),
    ]
    _, told = documents(kbench, "--resume", "one")
    assert told["summary"]["resumed"] == 2, "without the standard input"


def judges(pid: int) -> list[int]:
    """Nursery, judges and their children: everything below a sweep."""
    return [process.pid for process in members(pid) if process.pid != pid and not process.dead]


def alive(pids: list[int]) -> list[int]:
    table = processes()
    return [pid for pid in pids if pid in table and not table[pid].dead]


def started_by(pid: int) -> tuple[list[int], list[int]]:
    """Children of a process, and theirs."""
    table = {one: found for one, found in processes().items() if not found.dead}
    own = [one for one, found in table.items() if found.parent == pid]
    return own, [one for one, found in table.items() if found.parent in own]


def kill_something(sweep: subprocess.Popen, chance: random.Random) -> str:
    """Kill the sweep itself, its nursery or a builder, or a judge: a child of the nursery."""
    own, below = started_by(sweep.pid)
    victims = {"parent": [sweep.pid], "nursery": own, "judge": below}
    kind = chance.choice([name for name, pids in victims.items() if pids])
    with contextlib.suppress(ProcessLookupError):
        os.kill(chance.choice(victims[kind]), signal.SIGKILL)
    return kind


def disturbed(folder: Path, chance: random.Random, most: int) -> Counter[str]:
    """Sweep to the end, with up to so many kills; return what was killed.

    After each death the sweep goes on or is resumed. What comes out is what an undisturbed one gives, once.
    """
    path = folder / "results" / f"one{SUFFIX}"
    killed: Counter[str] = Counter()
    sweep = start(folder, *NEW)
    told: set[str] = set()
    while sweep.poll() is None:
        if chance.random() < 0.8:  # else it may be killed while it starts
            deadline = time.monotonic() + 60
            while sweep.poll() is None and len(judges(sweep.pid)) < OF_A_JUDGE and time.monotonic() < deadline:
                time.sleep(0.02)
        time.sleep(chance.uniform(0.0, 0.6))
        if sweep.poll() is None and killed.total() < most:
            below = judges(sweep.pid)
            victim = kill_something(sweep, chance)
            killed[victim] += 1
            if victim == "parent":
                sweep.communicate()
                wait_until(lambda: not alive(below))  # noqa: B023 - what a dead sweep started ends with it
                begun = path.exists() and b"\n" in path.read_bytes()
                found = set(journal.read(path).results) if begun else set()
                assert told <= found, "what was on the disk stays there"
                told = found
                sweep = start(folder, *(("--resume", "one") if begun else NEW))
    code, _, err = finish(sweep)
    if code == 70:  # a judge was killed three times in a row: the harness's fault, so whoever goes on tries again
        code, _, err = finish(start(folder, "--resume", "one"))
    assert code == 1, (killed, err)
    with (folder / "results/one.csv").open(newline="") as stream:
        rows = [(row["problem"], row["solution"], row["status"]) for row in csv.DictReader(stream)]
    assert sorted(rows) == sorted((*pair, status) for pair, status in WANTED.items()), killed
    lines = [line for text in path.read_text().splitlines() if "key" in (line := json.loads(text))]
    verdicts_of = Counter(
        (line["key"], line["process"])
        for line in lines
        if line["result"]["outcome"].get("status") != Status.HARNESS_ERROR
    )
    assert sorted(verdicts_of.values()) == [1] * len(WANTED), "nothing is judged again that has its verdict"
    return killed


@pytest.mark.slow
def test_kill_9_at_random_moments_loses_units_in_flight_alone(tmp_path) -> None:
    """`KBENCH_KILLS=20 pytest -n 0 -s tests/e2e/test_sweep.py -k kill_9` kills 20 times, and says what."""
    wanted = int(os.environ.get("KBENCH_KILLS", "1"))
    killed: Counter[str] = Counter()
    seed = 0
    while killed.total() < wanted:
        folder = tmp_path / str(seed)
        folder.mkdir()
        write_corpus(folder)
        killed += disturbed(folder, random.Random(seed), min(wanted - killed.total(), MOST_KILLS))
        seed += 1
        assert seed < 3 * wanted, "a sweep may end before the first kill, but not most of them"
    print(f"{seed} sweeps, killed: {dict(killed)}")  # noqa: T201 - what the long form is run for
    assert wanted < 20 or set(killed) == {"parent", "nursery", "judge"}
