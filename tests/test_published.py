import csv
import json
from pathlib import Path

import pytest
from published import COLUMNS, entry, interval, judge, kernels, row, title, write

PROBLEM = '''import torch


class Model(torch.nn.Module):
    """
    Doubles its input.

    Args: none
    """

    def forward(self, x):
        return 2 * x


def get_inputs():
    return [torch.rand(8, 33)]


def get_init_inputs():
    return []
'''
SOLUTION = PROBLEM.replace("class Model(", "class ModelNew(")


def archive(codes):
    lines = []
    for task, code in codes.items():
        level_id, task_id = map(int, task.split("/"))
        line = {"level_id": level_id, "task_id": task_id, "ref_code": PROBLEM, "custom_code": code}
        lines.append(json.dumps({**line, "score_default": 2.0}))
    return kernels("\n".join(lines) + "\n\n")


def test_kernels_without_code_are_left_out():
    found = archive({"1/2": SOLUTION, "1/3": None, "1/10": PROBLEM, "2/1": "None"})
    assert [one.task for one in found] == ["1/2", "1/10"]


def test_what_a_source_says():
    assert entry(PROBLEM) == "Model"
    assert entry(SOLUTION) is entry(PROBLEM + SOLUTION) is entry("def broken(:") is None
    assert title(PROBLEM) == "Doubles its input"
    assert title('"""The module."""\n' + PROBLEM) == "The module"
    assert title("x = 1") == title("def broken(:") == ""


def judged(status="passed", **more):
    known = {"reason": "", "level": None, "lacks": [], "diagnosis": None, "speedup": None, "attestation": "none"}
    known |= {"flags": [], "time_ns": None, "reference_ns": None, "stage_s": {"build": 1.0, "verify": 2.0}}
    return {**known, "status": status, "environment": {"gpu_name": "a card"}, **more}


def test_rows_of_one_and_of_two_sweeps(tmp_path):
    (kernel,) = archive({"1/2": SOLUTION})
    passed = judged(speedup=1.5, noise=0.1, level="general", flags=["a", "b"])
    below = judged("below_level", reason=f"{tmp_path}/a.py,\n line 1", level="task", lacks=["frozen_weights"])
    wrong = judged("wrong_value", diagnosis={"code": "tf32"})
    one = row(kernel, passed, passed, tmp_path)
    assert set(COLUMNS) - set(one) == {"source", "kbench"}
    assert [one[name] for name in ("status", "default_status", "level", "task_seconds", "flags")] == [
        *("passed", "passed", "general", "", "a b")
    ]
    assert (one["speedup_low"], one["speedup_high"]) == (1.35, 1.65)
    two = row(kernel, below, {**passed, "level": "task"}, tmp_path)
    assert [two[name] for name in ("status", "default_status", "level", "lacks", "default_reason", "task_seconds")] == [
        *("passed", "below_level", "task", "frozen_weights", "a.py, line 1", 3.0)
    ]
    refused = row(kernel, wrong, wrong, tmp_path)
    assert [refused[name] for name in ("level", "lacks", "diagnosis", "speedup")] == ["", "", "tf32", None]


def test_an_interval_of_one_process_ends_at_nought():
    assert interval(judged(speedup=2.0, noise=1.5)) == (0.0, 5.0)
    assert interval(judged(speedup=2.0, noise=1.5, speedup_low=1.9, speedup_high=2.1)) == (1.9, 2.1)
    assert interval(judged("raised")) == (None, None)


@pytest.mark.slow(seconds=10)
def test_two_sweeps_judge_an_archive(tmp_path):
    found = archive(
        {"1/10": PROBLEM.replace("2 * x", "x + x"), "1/3": SOLUTION.replace("2 * x", "2 * x.half().float()")}
    )
    made = judge(found, tmp_path, ["--devices", "cpu", "--until", "verify"])
    write(tmp_path / "folder" / "table.csv", made, {"kbench": "abc"})
    with Path(tmp_path / "folder" / "table.csv").open(newline="") as file:
        rows = [[one[name] for name in ("task", "status", "diagnosis", "kbench")] for one in csv.DictReader(file)]
    assert rows == [["1/3", "wrong_value", "fp16", "abc"], ["1/10", "passed", "", "abc"]]
