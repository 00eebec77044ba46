import ast
import csv
import functools
from collections import Counter

import pytest
import throughput
from throughput import MACHINE, VERDICT, Candidate, KernelBench, append_to, candidates, figures, measure

EVALUATOR = '''"""What answers as a text says, in place of KernelBench's evaluator."""

import os
import time
from types import SimpleNamespace


def eval_kernel_against_ref(problem, solution, **options):
    print("as KernelBench does")
    assert options == dict(num_correct_trials=5, num_perf_trials=100, measure_performance=True, device=0)
    assert problem == "a problem"
    if solution == "exits":
        os._exit(3)
    if solution == "hangs":
        time.sleep(60)
    if solution == "raises":
        raise ValueError(solution)
    if solution == "none":
        return None
    return SimpleNamespace(compiled=solution != "not compiled", correctness=solution == "right")
'''
MACHINE_OF_TESTS = dict.fromkeys(MACHINE, "x")


def candidate(solution, number=0):
    return Candidate(number=number, name="relu", kind="right", problem="a problem", solution=solution)


@pytest.fixture
def kernelbench(tmp_path):
    package = tmp_path / "src" / "kernelbench"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "eval.py").write_text(EVALUATOR)
    return functools.partial(KernelBench, tmp_path, tmp_path / "log")


def verdict(evaluator, number, kind, verdict, *, status="", latency_s=1.0, ended_s=1.0):
    shown = {"evaluator": evaluator, "candidate": str(number), "problem": "relu", "kind": kind, "verdict": verdict}
    return {**shown, "status": status or verdict, "latency_s": latency_s, "ended_s": ended_s, **MACHINE_OF_TESTS}


def test_half_of_any_ten_are_faulty_and_none_is_there_twice():
    found = candidates(20, 64)
    assert len({one.solution for one in found}) == len(found) == 100
    for start in range(0, 100, 10):
        assert sum(one.kind.startswith("right") for one in found[start : start + 10]) == 5
    assert set(Counter((one.kind, one.name) for one in found[:50]).values()) == {1}
    for one in found:
        ast.parse(one.problem)
        if one.kind != "no Python":
            ast.parse(one.solution)


def test_kernelbench_answers_in_a_process_for_each_candidate(kernelbench):
    judge = kernelbench()
    assert judge(candidate("not compiled")) == ("refused", "not_compiled")
    assert judge(candidate("none")) == ("none", "none")
    assert judge(candidate("raises")) == ("refused", "evaluator_raised ValueError('raises')")
    assert judge(candidate("exits")) == ("refused", "ended")
    assert judge(candidate("right")) == ("passed", "passed")
    judge._limit_s = 3.0
    assert judge(candidate("hangs")) == ("refused", "timeout")


def test_what_kernelbench_lacks_is_reported(tmp_path, kernelbench):
    (tmp_path / "src" / "kernelbench" / "eval.py").write_text("import a_package_that_is_not_there\n")
    with pytest.raises(SystemExit, match="a_package_that_is_not_there"):
        kernelbench()(candidate("right"))


def test_verdicts_are_on_the_disk_at_once_and_none_is_begun_too_late(tmp_path):
    path = tmp_path / "folder" / "x.verdicts.csv"
    append = append_to(path, MACHINE_OF_TESTS)
    chosen = candidates(1, 64)
    measure("kbench", chosen, lambda _: ("passed", "passed"), 2, 0.0, append)
    assert path.read_text() == ",".join(VERDICT) + "\n"
    measure("kbench", chosen, lambda one: ("refused", one.name), 2, 60.0, append)
    with path.open(newline="") as file:
        found = list(csv.DictReader(file))
    assert {(one["problem"], one["status"], one["evaluator"]) for one in found} == {
        (name, name, "kbench") for name in throughput.CALLS
    }


def test_figures_are_of_what_was_judged():
    right, wrong = "right", "wrong values"
    judged = [
        verdict("kbench", 0, right, "passed", latency_s=1.0, ended_s=1.0),
        verdict("kbench", 1, wrong, "refused", latency_s=3.0, ended_s=4.0),
        verdict("kbench", 2, right, "refused", latency_s=2.0, ended_s=5.0),
        verdict("kbench", 3, right, "none", latency_s=2.0, ended_s=9.0),
        verdict("kernelbench", 0, right, "passed", ended_s=10.0),
        verdict("kernelbench", 1, wrong, "passed", ended_s=20.0),
        verdict("kernelbench", 4, wrong, "refused", ended_s=36.0),
    ]
    ours, theirs = figures(judged)
    assert (ours["verdicts_per_hour"], theirs["verdicts_per_hour"]) == (1200, 300), "none is no verdict"
    assert (ours["times_kernelbench"], theirs["times_kernelbench"]) == (4.0, 1.0)
    assert (ours["p50_s"], ours["p95_s"], ours["first_s"]) == (2.0, 2.85, 1.0)
    assert (ours["passed"], ours["refused"], ours["no_verdict"], ours["right_refused"]) == (1, 2, 1, 1)
    assert (theirs["faulty_passed"], theirs["compared"], theirs["differ"]) == (1, 2, 1)
    assert theirs["differing"] == "wrong values: kbench refused, kernelbench passed (1)"
    assert (ours["differ"], ours["differing"], ours["gpu"]) == (0, "", "x")
