"""What people see of daily runs: results before remarks, one line of warnings a solution, one hint, 60 columns."""

from dataclasses import replace

import pytest
from fakes import failed, passed
from records import text_of

from kbench.core.diagnosis import Diagnosis
from kbench.core.model import Finding, FindingKind, Status
from kbench.report.prose import fit
from kbench.report.summary import RunSummary, summarise

NOISY = "attestation_weak unstable drift"
MISMATCH = "output at [0, 3]: got 1, want 2; 17 of 4096 elements are wrong"
ON_CPU = {"device": "cpu", "timer": "host", "gpu_name": "AMD EPYC", "l2": "none"}
NOTES = (
    Finding.note("skipped_scaled_down", "the reference is not finite or not accurate on scaled_down inputs"),
    Finding.note("kernels", "own: k"),
)


def run_of(*judged, **fields):
    return RunSummary(problem="softmax", cases=tuple(map(summarise, judged)), csv_path="results/one.csv", **fields)


def quick(solution, case="small", time_ns=26_200, flags=NOISY):
    ratio = 31_400 / time_ns
    speedups = {"speedup": ratio, "speedup_low": 0.9 * ratio, "speedup_high": 1.1 * ratio}
    times = {"flags": flags, "time_ns_median": time_ns, "attestation": "weak", **speedups}
    one = passed(solution, case, findings=NOTES, **times, **ON_CPU)
    return replace(one, rows=one.rows[:1])


def make_run():
    """`make run`: shipped solutions of a shipped problem on a GPU."""
    names = ("single_pass", "two_kernel", "triton")
    return run_of(*(passed(name, findings=NOTES) for name in names), unjudged=2)


def eager_quick():
    return run_of(quick("eager"), unjudged=2)


def kernelbench_file():
    """A file of KernelBench, which has no `CASES`, and a solution that keeps the weights of construction."""
    fatal = Finding(code="frozen_weights", kind=FindingKind.LEVEL, message=MISMATCH, fatal=True)
    why = "right with the weights it was constructed with, and wrong or failing once they change (frozen_weights)"
    judged = failed(Status.BELOW_LEVEL, f"holds the level `task`, and `module` is required: {why}", solution="fused")
    return run_of(replace(judged, outcome=replace(judged.outcome, findings=(fatal, *NOTES), lacks=("frozen_weights",))))


def wrong_solution():
    why = Diagnosis(code="missing_bias", sentence="leaves out `bias`", evidence="the reference with `bias` = 0 fits")
    judged = [
        failed(Status.WRONG_VALUE, f"{why.sentence}; {MISMATCH}", solution="mine", case=c) for c in ("a", "b", "c")
    ]
    return run_of(*(replace(one, outcome=replace(one.outcome, diagnosis=why)) for one in judged))


def grid():
    cases = [f"{m}x{n}" for m in (1, 64) for n in (128, 500, 4096)]
    times = {"softmax_a": 34_600, "softmax_b": 62_200, "softmax_c": 151_000}
    return run_of(*(quick(name, case, time_ns) for case in cases for name, time_ns in times.items()))


RUNS = (make_run, eager_quick, kernelbench_file, wrong_solution, grid)


@pytest.mark.parametrize("make", RUNS)
def test_results_come_first(make, golden):
    run = make()
    text = text_of(run)
    golden(f"first_{make.__name__}.txt", text)
    lines = [line for line in text.splitlines() if line]
    kinds = [line.partition(":")[0] for line in lines]
    remarks = sum(kind in {"warning", "hint", "note", "timing", "level"} for kind in kinds)
    assert kinds.count("warning") <= len(run.solutions)
    assert kinds.count("hint") <= 1
    assert kinds.count("note") == 0
    assert remarks < len(lines) / 2
    assert "[kernels]" in text_of(run, verbosity=1) or make is wrong_solution


@pytest.mark.parametrize("make", RUNS)
@pytest.mark.parametrize("width", [60, 100, 140])
def test_a_terminal_holds_every_line_but_what_is_copied(make, width):
    for line in fit(text_of(make(), width=width), width).splitlines():
        assert len(line) <= width or "`" in line or "results/" in line, line
