import json
import time

import pytest
from one_run import verdict
from published import (
    COLUMNS,
    MARKS,
    Table,
    choose,
    entry,
    fill,
    interval,
    judge_all,
    kernels,
    load,
    row,
    summary,
    title,
    without,
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
    return {"status": status, "reason": "", "row": {"gpu_name": "a card"}, **more}


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
WRONG = judged("wrong_value", reason="got 1 | want 2 <x>", diagnosis={"code": "tf32"}, level=None, lacks=[])


def filled(kernel, at_default=PASSED, at_task=None):
    found = row(kernel, at_default, at_task or at_default, 3.0, "" if at_task is None else 2.0)
    return {**found, "source": "somewhere", "kbench": "abc"}


def test_kernels_without_code_are_left_out(found):
    assert [one.task for one in found] == ["1/2", "1/10", "2/7"]
    assert [one.task for one in choose(found, "2/7,1/2", 1)] == ["1/2", "2/7"]
    assert [one.task for one in choose(found, "", 2)] == ["1/2", "2/7"]
    with pytest.raises(SystemExit, match="1/3"):
        choose(found, "1/3", 1)


def test_a_solution_called_as_the_reference_is_named():
    assert entry(PROBLEM) == ["--entry", "Model"]
    assert entry(SOLUTION) == entry(PROBLEM + SOLUTION) == entry("def broken(:") == []


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


def test_a_reason_does_not_name_our_folder():
    assert without("/tmp/x", judged(reason="/tmp/x/a.py, line 1"))["reason"] == "a.py, line 1"


def test_without_levels_a_row_says_so(found):
    passed = {name: value for name, value in PASSED.items() if name not in {"level", "lacks"}}
    one = filled(found[0], passed)
    assert (one["status"], one["level"], one["lacks"]) == ("passed", "", "")
    assert "| none is told | 1 |" in summary([one])


def test_a_document_without_results_has_a_status_and_a_reason():
    assert verdict({"status": "error", "reason": "no\nclass", "results": []}) == {
        "status": "error",
        "reason": "no class",
        "results": [],
        "row": {},
    }
    told = {"status": "passed", "results": [{"status": "passed", "reason": "", "rows": [{"gpu_name": "x"}]}]}
    assert verdict(told)["row"] == {"gpu_name": "x"}


def test_rows_are_on_the_disk_at_once_and_the_last_one_counts(tmp_path, found):
    path = tmp_path / "folder" / "table.csv"
    table = Table(path, resume=False)
    table.append(filled(found[1], WRONG))
    table.append(filled(found[0]))
    table.append(filled(found[1]))
    assert [(one["task"], one["status"]) for one in load(path)] == [("1/2", "passed"), ("1/10", "passed")]
    table.write()
    assert len(path.read_text().splitlines()) == 3

    again = Table(path, resume=True)
    assert [again.has(one) for one in found] == [True, True, False]
    assert not again.has(kernels(line("1/2", SOLUTION + "\n"))[0]), "another text"
    assert not Table(path, resume=False).has(found[0])
    assert load(path) == []


def test_what_the_time_does_not_suffice_for_is_left_to_the_next_call(tmp_path, found):
    table = Table(tmp_path / "table.csv", resume=False)
    judge_all(found, table, 2, 0.0, lambda kernel, _: filled(kernel))
    assert table.rows == {}
    judge_all(found, table, 2, float("inf"), lambda kernel, _: filled(kernel))
    assert len(load(table.path)) == 3


def test_what_ends_after_its_time_is_not_kept(tmp_path, found, monkeypatch):
    now = iter([0.0, 1.0, 99.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    table = Table(tmp_path / "table.csv", resume=False)
    judge_all(found[:1], table, 1, 50.0, lambda kernel, _: filled(kernel))
    assert table.rows == {}


def test_the_summary_counts_and_names_what_was_refused(tmp_path, found):
    table = Table(tmp_path / "table.csv", resume=False)
    rows = [filled(found[0]), filled(found[1], BELOW, PASSED), filled(found[2], WRONG, WRONG)]
    for one in rows:
        table.append(one)
    text = summary(load(table.path))
    assert "3 kernels of somewhere, on a card, by kbench abc: 2 do the task, 1 pass at the default level" in text
    assert "| passed | 2 |" in text
    assert "| general | 1 |" in text
    assert "| task | 1 |" in text
    assert "| frozen_weights | 1 |" in text
    assert "| all | 2 | 2.000× | 1.500× | 2.000× | 1.500× |" in text
    assert "2 of 2 are `held`; with their whole interval, 2 are below their claim and 0 slower" in text
    assert "| 2/7 | 2.00× | wrong_value | tf32 | got 1 \\| want 2 &lt;x> |" in text
    assert "| 1/10 | 2.00× | below_level |  | not the level |" in text
    assert summary([]) == "Nothing was judged yet."


def test_the_page_is_filled_between_its_marks():
    page = f"above\n{MARKS[0]}\nold\n{MARKS[1]}\nbelow\n"
    once = fill(page, "new")
    assert once == f"above\n{MARKS[0]}\n\nnew\n\n{MARKS[1]}\nbelow\n"
    assert fill(once, "new") == once
    with pytest.raises(SystemExit, match="marks"):
        fill("without", "new")
