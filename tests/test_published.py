import json

import pytest
from published import (
    COLUMNS,
    MARKS,
    choose,
    entry,
    fill,
    interval,
    judge,
    kept,
    kernels,
    load,
    row,
    rows,
    summary,
    title,
    without,
    write,
)

PROBLEM = '''import torch


class Model(torch.nn.Module):
    """
    Doubles its input.

    Args: none
    """

    def forward(self, x):
        return 2 * x
'''
SOLUTION = PROBLEM.replace("class Model(", "class ModelNew(")


def line(task, code, claimed=2.0):
    level_id, task_id = map(int, task.split("/"))
    return json.dumps(
        {"level_id": level_id, "task_id": task_id, "ref_code": PROBLEM, "custom_code": code, "score_default": claimed}
    )


@pytest.fixture
def found():
    codes = {"1/2": SOLUTION, "1/3": None, "1/10": PROBLEM, "2/1": "None", "2/7": SOLUTION}
    return kernels("\n".join(line(task, code) for task, code in codes.items()) + "\n\n")


def judged(status="passed", **more):
    known = {
        "status": status,
        "reason": "",
        "level": None,
        "lacks": [],
        "diagnosis": None,
        "speedup": None,
        "attestation": "none",
        "flags": [],
        "time_ns": None,
        "reference_ns": None,
        "stage_s": {"build": 1.0, "verify": 2.0},
        "environment": {"gpu_name": "a card"},
    }
    return {**known, **more}


PASSED = judged(
    speedup=1.5,
    noise=0.1,
    attestation="held",
    level="general",
    lacks=[],
    time_ns=2000,
    reference_ns=3000,
    flags=["a", "b"],
)
BELOW = judged("below_level", reason="not the level", level="task", lacks=["frozen_weights"])
WRONG = judged("wrong_value", reason="got 1 | want 2 <x>", diagnosis={"code": "tf32"})


def filled(kernel, at_default=PASSED, at_task=None):
    return {**row(kernel, at_default, at_task or at_default), "source": "somewhere", "kbench": "abc"}


def test_kernels_without_code_are_left_out(found):
    assert [one.task for one in found] == ["1/2", "1/10", "2/7"]
    assert [one.task for one in choose(found, "2/7,1/2", 1)] == ["1/2", "2/7"]
    assert [one.task for one in choose(found, "", 2)] == ["1/2", "2/7"]
    with pytest.raises(SystemExit, match="1/3"):
        choose(found, "1/3", 1)


def test_a_solution_called_as_the_reference_is_named():
    assert entry(PROBLEM) == "Model"
    assert entry(SOLUTION) is entry(PROBLEM + SOLUTION) is entry("def broken(:") is None


def test_the_title_is_the_first_line_of_what_documents_the_problem():
    assert title(PROBLEM) == "Doubles its input"
    assert title('"""The module."""\n' + PROBLEM) == "The module"
    assert title("x = 1") == title("def broken(:") == ""


def test_a_row_of_one_run(found):
    one = filled(found[0])
    assert set(one) == set(COLUMNS)
    assert (one["status"], one["default_status"], one["level"], one["task_seconds"]) == (
        "passed",
        "passed",
        "general",
        "",
    )
    assert (one["speedup_low"], one["speedup_high"]) == pytest.approx((1.35, 1.65))
    assert (one["claimed"], one["flags"], one["gpu"]) == (2.0, "a b", "a card")


def test_a_row_of_two_runs(found):
    one = filled(found[0], BELOW, {**PASSED, "level": "task"})
    assert (one["status"], one["default_status"], one["default_reason"]) == ("passed", "below_level", "not the level")
    assert (one["level"], one["lacks"], one["speedup"]) == ("task", "frozen_weights", 1.5)
    one = filled(found[0], WRONG, WRONG)
    assert (one["level"], one["lacks"], one["diagnosis"], one["speedup"]) == ("", "", "tf32", "")


def test_an_interval_of_one_process_ends_at_nought():
    assert interval(judged(speedup=2.0, noise=1.5)) == (0.0, 5.0)
    assert interval(judged(speedup=2.0, noise=1.5, speedup_low=1.9, speedup_high=2.1)) == (1.9, 2.1)
    assert interval(judged("raised")) == (None, None)


def test_a_reason_is_one_line_and_does_not_name_our_folder(tmp_path):
    assert without(tmp_path, judged(reason=f"{tmp_path}/a.py,\n line 1"))["reason"] == "a.py, line 1"


def test_a_kernel_has_a_row_when_nothing_of_it_is_left_to_judge(tmp_path, found):
    at_default = {"1/2": PASSED, "1/10": WRONG}
    assert [one["task"] for one in rows(found, at_default, {}, tmp_path, {})] == ["1/2"]
    made = rows(found, at_default, {"1/10": PASSED}, tmp_path, {"kbench": "abc"})
    assert [(one["task"], one["status"], one["default_status"]) for one in made] == [
        ("1/2", "passed", "passed"),
        ("1/10", "passed", "wrong_value"),
    ]
    assert [(one["seconds"], one["task_seconds"], one["kbench"]) for one in made] == [
        (3.0, "", "abc"),
        (3.0, 3.0, "abc"),
    ]


def test_the_table_is_in_the_order_of_the_tasks(tmp_path, found):
    path = tmp_path / "folder" / "table.csv"
    write(path, [filled(one) for one in reversed(found)])
    assert [one["task"] for one in load(path)] == ["1/2", "1/10", "2/7"]


def test_rows_of_kernels_that_were_not_judged_again_stay(tmp_path):
    table = tmp_path / "t.csv"
    assert kept(table, []) == [], "there is none yet"
    write(table, [{"task": "1/1", "status": "passed"}, {"task": "1/2", "status": "passed"}])
    (old,) = kept(table, [{"task": "1/2", "status": "wrong_value"}])
    assert (old["task"], old["status"]) == ("1/1", "passed")


@pytest.mark.slow(seconds=15)
def test_two_sweeps_judge_an_archive_and_go_on_where_they_ended(tmp_path):
    sources = {
        "1/1": SOLUTION,
        "1/2": PROBLEM.replace("2 * x", "x + x"),
        "1/3": SOLUTION.replace("2 * x", "2 * x.half().float()"),
    }
    problem = (
        PROBLEM + "\n\ndef get_inputs():\n    return [torch.rand(8, 33)]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    lines = [{**json.loads(line(task, code)), "ref_code": problem} for task, code in sources.items()]
    found = kernels("\n".join(map(json.dumps, lines)))
    arguments = ["--devices", "cpu", "--until", "verify"]
    at_default, at_task = judge(found[1:], tmp_path, arguments, 300.0)
    assert {task: one["status"] for task, one in at_default.items()} == {"1/2": "passed", "1/3": "wrong_value"}
    assert {task: one["status"] for task, one in at_task.items()} == {"1/3": "wrong_value"}
    assert at_task["1/3"]["diagnosis"]["code"] == "fp16"
    at_default, at_task = judge(found, tmp_path, arguments, 300.0)
    assert {task: one["resumed"] for task, one in at_default.items()} == {"1/1": False, "1/2": True, "1/3": True}
    assert [one["resumed"] for one in at_task.values()] == [True]


def test_the_summary_counts_verdicts_levels_and_lacks(tmp_path, found):
    write(tmp_path / "table.csv", [filled(found[0]), filled(found[1], BELOW, PASSED), filled(found[2], WRONG, WRONG)])
    text = summary(load(tmp_path / "table.csv"))
    assert "3 kernels of somewhere, on a card: 2 do the task, 1 pass at the default level" in text
    assert "Status at `task`: 2 `passed`, 1 `wrong_value`." in text
    assert "Level held: 1 `general`, 1 `task`, 1 `none`." in text
    assert "Lacks: 1 `frozen_weights`." in text
    assert "| all | 2 | 2.000× | 1.500× | 2.000× | 1.500× |" in text
    assert "2 of 2 are `held`; with their whole interval, 2 are below their claim and 0 slower" in text
    assert summary([]) == "Nothing was judged yet."


def test_the_page_is_filled_between_its_marks():
    page = f"above\n{MARKS[0]}\nold\n{MARKS[1]}\nbelow\n"
    once = fill(page, "new")
    assert once == f"above\n{MARKS[0]}\n\nnew\n\n{MARKS[1]}\nbelow\n"
    assert fill(once, "new") == once
    with pytest.raises(SystemExit, match="marks"):
        fill("without", "new")
