"""Remarks of a run: what says the same is one line, and each advice is given once."""

from dataclasses import replace

from fakes import ROW, failed, passed

from kbench.core.model import Finding, Status
from kbench.report import run_formats, terminal
from kbench.report.shown import remarks, remarks_of
from kbench.report.summary import RunSummary, summarise

NOISY = "attestation_weak bimodal drift not_settled outliers"


def lines(*judged) -> list[str]:
    return [one.line for one in remarks(RunSummary(problem="p", cases=tuple(map(summarise, judged))))]


def test_flags_of_one_cause_share_a_line_and_its_advice_and_what_follows_from_it_has_none():
    weak, disturbed, hint = lines(passed(flags=NOISY))
    assert weak.startswith("warning: online, case default: the judge's clock cannot confirm the time")
    assert disturbed == (
        "warning: online, case default: times fall into two groups, by clocks or placement [bimodal]; "
        "times move steadily during the run, by clocks, heat or memory [drift]; "
        "times were still changing when timing began [not_settled]; "
        "some times are far from the rest, and are kept [outliers]"
    )
    assert hint == (
        "hint: bimodal, drift, not_settled, outliers: "
        "Close other programs and run again; `kbench show @latest --samples` shows every time."
    )


def test_the_advice_on_a_saved_run_names_that_run():
    case = summarise(passed(flags="drift"))
    *_, hint = remarks(RunSummary(problem="p", cases=(case,), typed="results/one.csv"))
    assert "`kbench show results/one.csv --samples`" in hint.text


def test_a_weak_time_without_a_known_cause_has_its_own_advice():
    assert lines(passed(flags="attestation_weak"))[-1].startswith("hint: attestation_weak: See the other warnings")


def test_one_remark_for_all_cases_that_it_holds_for():
    cases = [passed(solution, case, flags="throttled") for case in ("small", "full") for solution in ("a", "b", "c")]
    warning, hint = lines(*cases[:4])
    assert warning == (
        "warning: a, b and c, case small; a, case full: the device lowered its clocks while timing [throttled]"
    )
    assert hint.startswith("hint: throttled: ")


def test_remarks_of_different_solutions_are_kept_apart():
    one = passed("a", findings=(Finding.note("kernels", "own: x"),))
    other = passed("b", findings=(Finding.note("kernels", "own: y"),))
    assert lines(one, other) == ["note: a, case default: own: x [kernels]", "note: b, case default: own: y [kernels]"]
    assert [remark.line for remark in remarks_of(summarise(one))] == ["note: a, case default: own: x [kernels]"]


def of_a_sweep(count: int) -> RunSummary:
    cases = []
    for number in range(count):
        case = summarise(passed("mine", flags="throttled"))
        rows = tuple(replace(row, problem=f"{number}_ReLU") for row in case.rows)
        cases.append(replace(case, rows=rows))
    return RunSummary(problem=f"{count} problems", cases=tuple(cases))


def test_a_sweep_names_problems_and_not_all_of_them():
    run = of_a_sweep(40)
    warning, _ = remarks(run)
    assert warning.text.startswith(
        "0_ReLU · mine, 1_ReLU · mine, 2_ReLU · mine, 3_ReLU · mine and 36 more, case default: the device lowered"
    )
    assert remarks(run, verbosity=1)[0].text.count("_ReLU · mine") == 40
    lines = terminal.render_run(run).splitlines()
    assert sum(line.split()[:2] == [f"{number}_ReLU", "mine"] for number in range(40) for line in lines) == 40
    assert terminal.render_run(run, verbosity=-1).startswith("passed  0_ReLU · mine  default")
    assert "| problem | solution |" in run_formats.render_markdown(run)


def test_a_run_of_one_problem_has_no_column_for_it():
    assert "| problem |" not in run_formats.render_markdown(of_a_sweep(1))
    assert "ReLU · mine" not in terminal.render_run(of_a_sweep(1))


def test_what_failed_in_a_sweep_is_told_with_its_problem():
    case = summarise(failed(Status.WRONG_VALUE, "off by one", solution="mine"))
    cases = [replace(case, rows=(replace(ROW, problem=f"{number}_ReLU"),)) for number in range(2)]
    run = RunSummary(problem="2 problems", cases=tuple(cases))
    assert run.reason == "0_ReLU · mine, case default: off by one"
    assert "1\\_ReLU · mine, case default: off by one" in run_formats.render_markdown(run)
