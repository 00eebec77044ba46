"""Sweeps by the command line, with real judges and workers on the CPU."""

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tiny_corpus import BODIES, problem, solution


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
    code, told = documents(kbench, *NEW)
    assert code == 1
    assert {(one["problem"], one["solution"]): one["status"] for one in told["results"]} == WANTED
    assert verdicts(own_folder) == WANTED
    assert told["summary"]["done"] == 9

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
