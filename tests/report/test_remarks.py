"""Remarks of a run: what says the same is one line, and each advice is given once."""

from dataclasses import replace

import pytest
from fakes import ROW, failed, passed
from records import markdown_of, text_of

from kbench.core.model import Finding, Status
from kbench.report.run import failure
from kbench.report.shown import notes_of_run
from kbench.report.summary import RunSummary, summarise

NOISY = "attestation_weak unstable drift"


def lines(*judged, verbosity=0, **fields) -> list[str]:
    run = RunSummary(problem="p", cases=tuple(map(summarise, judged)), **fields)
    return [one.line for one in notes_of_run(run, verbosity)]


def test_the_worst_flag_is_said_in_words_and_the_others_by_code():
    warning, hint = lines(passed(flags=NOISY), csv_path="results/one.csv")
    assert warning == (
        "warning: online: the judge's clock cannot confirm the time, so the speed-up is printed with two digits "
        "at most and a `~` [attestation_weak]; also unstable, drift"
    )
    assert hint == ("hint: unstable, drift: Close other programs and run again.")


@pytest.mark.parametrize("flags", ["bimodal", "bimodal drift", "drift refuted_clock outliers"])
@pytest.mark.parametrize("verbosity", [0, 1])
def test_flags_that_nothing_explains_any_more_are_left_out(flags, verbosity):
    known = " ".join(flag for flag in flags.split() if flag == "drift")
    assert lines(passed(flags=flags), verbosity=verbosity) == lines(passed(flags=known), verbosity=verbosity)


@pytest.mark.parametrize(
    ("status", "reason", "log", "shown"),
    [
        (Status.RAISED, "ValueError: no", "at work\ns.py:3, in forward: f()\nValueError: no", ["at work", "s.py:3"]),
        (Status.RAISED, "ValueError: no", "ValueError: no such\nValueError: no\n", ["ValueError: no such"]),
        (Status.BUILD_FAILED, "a.cpp:1: error: x", "c++\n/a.cpp:1: error: x\n 1 | x\n   | ^", [" 1 | x", "   | ^"]),
        (Status.CRASHED, "signal 11", "before\nafter", ["before", "after"]),
        (Status.RAISED, "ValueError", "ValueError", []),
    ],
)  # fmt: skip
def test_a_log_does_not_repeat_the_reason_unless_it_is_whole(status, reason, log, shown):
    case = summarise(failed(status, reason, log=log))
    excerpt = [line.removeprefix("  | ") for line in failure(case, "s").splitlines() if line.startswith("  | ")]
    assert len(excerpt) == len(shown)
    assert all(line.startswith(start) for line, start in zip(excerpt, shown, strict=True))
    assert failure(case, "s", 1).count(reason) == log.count(reason) + 1


def test_verbose_output_has_a_line_for_each_code_with_its_cases():
    weak, _, unsettled, hint = lines(passed(flags=NOISY), verbosity=1)
    assert weak.startswith("warning: online, case default: the judge's clock cannot confirm the time")
    assert unsettled.endswith("or still changed when timing began: clocks, heat or memory [drift]")
    assert hint.startswith("hint: ")


def test_a_weak_time_without_a_known_cause_has_its_own_advice():
    assert lines(passed(flags="attestation_weak"))[-1].startswith("hint: attestation_weak: See the other warnings")


def test_solutions_with_the_same_worst_warning_share_a_line_that_counts():
    cases = [passed(solution, case, flags="throttled") for case in ("small", "full") for solution in ("a", "b")]
    cases[0] = passed("a", "small", flags="throttled unstable")
    cases += [passed("c", "small", flags="unstable"), passed("c", "full")]
    throttled, unstable, hint = lines(*cases)
    assert throttled == (
        "warning: a and b: the device lowered its clocks while timing [throttled, 4 of 4 results]; also unstable (1)"
    )
    assert unstable == "warning: c: too many pairs were throttled or disturbed [unstable, 1 of 2 results]"
    assert hint.startswith("hint: throttled: ")


def test_notes_are_for_those_who_ask_and_solutions_kept_apart():
    one = passed("a", findings=(Finding.note("kernels", "own: x"),))
    other = passed("b", findings=(Finding.note("kernels", "own: y"),))
    assert lines(one, other) == []
    told = ["note: a, case default: own: x [kernels]", "note: b, case default: own: y [kernels]"]
    assert lines(one, other, verbosity=1) == told


def test_a_failure_has_the_only_hint():
    wrong = failed(Status.WRONG_VALUE, "off by one", solution="wrong")
    run = RunSummary(problem="p", cases=tuple(map(summarise, (passed(flags="throttled"), wrong))))
    assert [one.kind for one in notes_of_run(run)] == ["warning"]
    assert text_of(run).count("hint: ") == 1


def of_a_sweep(count: int) -> RunSummary:
    cases = []
    for number in range(count):
        case = summarise(passed("mine", flags="throttled"))
        rows = tuple(replace(row, problem=f"{number}_ReLU") for row in case.rows)
        cases.append(replace(case, rows=rows))
    return RunSummary(problem=f"{count} problems", cases=tuple(cases))


def test_a_sweep_names_problems_and_not_all_of_them():
    run = of_a_sweep(40)
    warning, _ = notes_of_run(run)
    assert warning.text.startswith(
        "0_ReLU · mine, 1_ReLU · mine, 2_ReLU · mine, 3_ReLU · mine and 36 more: the device lowered"
    )
    assert notes_of_run(run, verbosity=1)[0].text.count("_ReLU · mine") == 40
    lines = text_of(run).splitlines()
    assert sum(line.split()[:2] == [f"{number}_ReLU", "mine"] for number in range(40) for line in lines) == 40
    assert text_of(run, verbosity=-1).startswith("passed  0_ReLU · mine  default")
    assert "| problem | solution |" in markdown_of(run)


def test_a_run_of_one_problem_has_no_column_for_it():
    assert "| problem |" not in markdown_of(of_a_sweep(1))
    assert "ReLU · mine" not in text_of(of_a_sweep(1))


def test_what_failed_in_a_sweep_is_told_with_its_problem():
    case = summarise(failed(Status.WRONG_VALUE, "off by one", solution="mine"))
    cases = [replace(case, rows=(replace(ROW, problem=f"{number}_ReLU"),)) for number in range(2)]
    run = RunSummary(problem="2 problems", cases=tuple(cases))
    assert run.reason == "0_ReLU · mine, case default: off by one"
    assert "1\\_ReLU · mine, case default: off by one" in markdown_of(run)
