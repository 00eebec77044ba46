"""Sweeps by the command line: real judges and workers on the CPU, and kill -9 at random moments."""

import contextlib
import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kbench.sandbox.process_tree import members, processes
from kbench.sweep import journal

ROOT = Path(__file__).parents[2]
PROBLEM = '''"""Doubles."""
import torch

n = 16


class Model(torch.nn.Module):
    def forward(self, x):
        return {factor} * x


def get_inputs():
    return [torch.rand(4, n)]


def get_init_inputs():
    return []
'''
SOLUTION = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        {body}
"""
BODIES = {
    "right": ("return x * {factor}", "passed"),
    "wrong": ("return x * {factor} + 1", "wrong_value"),
    "raises": ("raise ValueError('no')", "raised"),
    "dies": ("import os; os._exit(3)", "exited"),
}
LIMIT_S = 600.0
OF_A_JUDGE = 4
"""Processes below a sweep while it judges: nursery, judge, the judge's nursery, a worker."""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two problems, each with solutions of known ends, one file that is no Python and one without a model."""
    for factor in (2, 3):
        name = f"times_{factor}"
        (tmp_path / "problems").mkdir(exist_ok=True)
        (tmp_path / "problems" / f"{name}.py").write_text(PROBLEM.format(factor=factor))
        folder = tmp_path / "solutions" / name
        folder.mkdir(parents=True)
        for kind, (body, _) in BODIES.items():
            (folder / f"{kind}.py").write_text(SOLUTION.format(body=body.format(factor=factor)))
    (tmp_path / "solutions/times_3/empty.py").write_text("x = 1\n")
    return tmp_path


WANTED = {(f"times_{factor}", kind): status for factor in (2, 3) for kind, (_, status) in BODIES.items()} | {
    ("times_3", "empty"): "import_failed"
}


def start(folder: Path, *arguments: str) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KBENCH_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "kbench", "sweep", *arguments, "--devices", "cpu"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE) | {"text": True}
    return subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True, **pipes)


NEW = ("problems", "solutions", "--until", "verify", "--level", "task", "--name", "one", "--lanes", "2")


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=LIMIT_S)
    return process.returncode, out, err


def verdicts(folder: Path) -> dict[tuple[str, str], str]:
    with (folder / "results/one.csv").open(newline="") as stream:
        return {(row["problem"], row["solution"]): row["status"] for row in csv.DictReader(stream)}


@pytest.mark.slow
def test_a_sweep_and_its_resumption(corpus) -> None:
    code, out, err = finish(start(corpus, *NEW, "--json", "--junit", "one.xml"))
    assert code == 1, err
    told = json.loads(out)
    assert {(one["problem"], one["solution"]): one["status"] for one in told["results"]} == WANTED
    assert verdicts(corpus) == WANTED
    assert told["summary"]["done"] == 9
    assert (corpus / "one.xml").read_text().count("<failure") == 7

    again, out, err = finish(start(corpus, "--resume", "one", "--json"))
    told = json.loads(out)
    assert (again, told["summary"]["resumed"]) == (1, 9), err
    assert not told["summary"]["stage_s"], "nothing was judged"

    (corpus / "solutions/times_2/wrong.py").write_text(SOLUTION.format(body="return x + x"))
    code, out, err = finish(start(corpus, "--resume", "one", "--json"))
    told = json.loads(out)
    assert told["summary"]["resumed"] == 8, "another source is another task"
    assert verdicts(corpus)["times_2", "wrong"] == "passed"


@pytest.mark.slow
def test_candidates_as_text_through_stdin(corpus) -> None:
    lines = [
        {
            "problem": "problems/times_2.py",
            "name": "text",
            "source": SOLUTION.format(body="return x + x"),
            "claim": 1.5,
        },
        {"problem": "problems/times_2.py", "solution": "eager", "tags": ["self"]},
    ]
    process = start(corpus, "-", "--until", "verify", "--level", "task", "--name", "one", "--json")
    out, err = process.communicate("\n".join(map(json.dumps, lines)), timeout=LIMIT_S)
    told = json.loads(out)
    assert process.returncode == 0, err
    assert [(one["status"], one["claim"], one["tags"]) for one in told["results"]] == [
        ("passed", 1.5, []),
        ("passed", None, ["self"]),
    ]
    _, out, _ = finish(start(corpus, "--resume", "one", "--json"))
    assert json.loads(out)["summary"]["resumed"] == 2, "without the standard input"


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


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_kill_9_at_random_moments_loses_units_in_flight_alone(corpus, seed) -> None:
    """After each death the sweep goes on or is resumed; what comes out is what an undisturbed one gives."""
    chance = random.Random(seed)
    path = corpus / "results" / f"one{journal.SUFFIX}"
    killed: list[str] = []
    sweep = start(corpus, *NEW)
    told: set[str] = set()
    while sweep.poll() is None:
        if chance.random() < 0.8:  # else it may be killed while it starts
            deadline = time.monotonic() + 60
            while sweep.poll() is None and len(judges(sweep.pid)) < OF_A_JUDGE and time.monotonic() < deadline:
                time.sleep(0.02)
        time.sleep(chance.uniform(0.0, 1.0))
        if sweep.poll() is None and len(killed) < 7:
            below = judges(sweep.pid)
            killed.append(kill_something(sweep, chance))
            if killed[-1] == "parent":
                sweep.communicate()
                deadline = time.monotonic() + 30
                while alive(below):
                    assert time.monotonic() < deadline, "what a dead sweep started ends with it"
                    time.sleep(0.1)
                found = set(journal.read(path).results) if path.exists() else set()
                assert told <= found, "what was on the disk stays there"
                told = found
                sweep = start(corpus, *(("--resume", "one") if path.exists() else NEW))
    code, _, err = finish(sweep)
    if (
        code == 70
    ):  # one whose judge was killed three times in a row: the harness's fault, so whoever goes on tries again
        code, _, err = finish(start(corpus, "--resume", "one"))
    assert killed
    assert code == 1, (killed, err)
    assert verdicts(corpus) == WANTED, killed
    record = journal.read(path)
    assert len(record.results) == len(WANTED)
    assert all(len(results) == 1 for results in record.results.values())
    assert not [result for (result,) in record.results.values() if result.retryable]
