"""The table of cases and solutions: which one is the fastest where, compared with whom, and failures that are alike."""

from dataclasses import replace

import pytest
from fakes import failed, passed
from records import markdown_of, text_of

from kbench.core.model import Status
from kbench.report import units
from kbench.report.html import speed
from kbench.report.pivot import pivot_of
from kbench.report.summary import ONE_PROCESS, RunSummary, summarise

TIMES = {
    "a": {"small": 50.0, "large": 400.0},
    "b": {"small": 100.0, "large": 200.0},
    "other": {"small": 90.0, "large": 900.0},
}
"""Microseconds; the reference takes 200 and 400."""
REFERENCE = {"small": 200.0, "large": 400.0}


def timed(solution, case, weight=1.0):
    one = summarise(passed(solution, case))
    us, speedup = TIMES[solution][case], REFERENCE[case] / TIMES[solution][case]
    ends = {"speedup_low": speedup * 0.99, "speedup_high": speedup * 1.01}
    return replace(one, time_ns=us * 1e3, speedup=speedup, weight=weight, **ends)


def run_of(*cases, **fields):
    return RunSummary(problem="softmax", cases=cases, **fields)


def grid(*solutions, weight=1.0, **fields):
    chosen = solutions or tuple(TIMES)
    cases = [timed(name, case, weight if case == "small" else 1.0) for case in REFERENCE for name in chosen]
    return run_of(*cases, **fields)


def test_a_run_over_cases_and_solutions_ends_with_a_pivot_in_place_of_the_long_table():
    text = text_of(grid())
    lines = text.splitlines()
    start = lines.index("time in µs, TB/s, and speed-up over the reference; * is the fastest of its case")
    assert [line.split() for line in lines[start + 1 : start + 5]] == [
        ["case", "a", "b", "other"],
        ["small", "50.0", "42.9", "4.00×*", "100.0", "21.5", "2.000×", "90.0", "23.9", "2.222×"],
        ["large", "400", "5.37", "1.000×", "200.0", "10.7", "2.000×*", "900", "2.39", "0.444×"],
        ["geometric", "mean", "2.00×", "2.00×", "0.994×"],
    ]
    assert "a is the fastest in 1 of 2 cases." in text
    assert "verdict" not in text
    assert "verdict" in text_of(grid(), verbosity=1)
    assert "(3.96 … 4.04)" in text_of(grid(), verbosity=1)


@pytest.mark.parametrize(
    ("limits", "rate"),
    [(("memory", "memory"), "TB/s"), (("fp32", "fp16 x 3"), "TFLOP/s"), (("memory", "fp32"), ""), (("", ""), "")],
)
def test_the_rate_is_of_what_bounds_every_case(limits, rate):
    cases = []
    for case in grid("a", "b").cases:
        row = replace(case.rows[0], limit_rate=limits[case.case == "large"])
        cases.append(replace(case, rows=(row,)))
    pivot = pivot_of(run_of(*cases))
    assert pivot.rate == rate
    assert (rate in pivot.title) if rate else ("/s" not in pivot.title)


def test_a_solution_may_be_the_baseline():
    pivot = pivot_of(grid(baseline="b"))
    assert pivot.title.startswith("time in µs, TB/s, and speed-up over b;")
    assert {name: cell.speedup for name, cell in pivot.cells["small"].items()} == pytest.approx(
        {"a": 2.0, "b": 1.0, "other": 100 / 90}
    )
    small = pivot.cells["small"]["a"]
    assert (small.speedup_low, small.speedup_high) == pytest.approx(
        (2 / 1.0143, 2 * 1.0143), rel=1e-3
    )  # of both, in quadrature
    assert pivot.run.shown_speedup_of("b") == "1.00×"


def test_weights_count_and_are_said():
    pivot = pivot_of(grid("a", "b", weight=3.0))
    assert pivot.run.mean_name == "weighted geometric mean"
    assert [pivot.run.shown_speedup_of(name) for name in "ab"] == ["2.83×", "2.00×"]  # 4 ** (3/4) * 1 ** (1/4)
    assert "weighted geometric mean" in text_of(grid("a", weight=3.0))
    assert "Weighted geometric means over the reference: a 2.83×" in pivot.sentence()


def test_markdown_marks_the_fastest():
    assert r"| small | 50.0 42.9 4.00×\* | 100.0 21.5 2.000× | 90.0 23.9 2.222× |" in markdown_of(grid())
    assert pivot_of(grid()).fastest == {"small": "a", "large": "b"}


@pytest.mark.parametrize(
    ("changes", "fastest"),
    [
        ({}, "a"),
        ({"b": {"speedup_high": 3.95}}, "a"),
        ({"b": {"speedup_high": 4.0}}, None),
        ({"a": {"speedup_low": None}}, None),
        ({"other": {"speedup_high": None}}, None),
        ({"a": {"flags": (ONE_PROCESS,), "noise": 0.1}}, "a"),
        ({"a": {"flags": (ONE_PROCESS,), "noise": 0.6}}, None),
        ({"a": {"time_ns": None, "speedup": None}}, "other"),
    ],
)
def test_the_fastest_is_so_beyond_the_noise(changes, fastest):
    cases = [replace(case, **changes.get(case.solution, {})) for case in grid().cases]
    assert pivot_of(run_of(*cases)).fastest.get("small") == fastest


def test_without_a_clear_winner_the_means_stay():
    pivot = pivot_of(run_of(*[replace(case, speedup_low=None, speedup_high=None) for case in grid("a", "b").cases]))
    assert not pivot.wins
    assert pivot.sentence().startswith(
        "No solution is clearly the fastest of a case. Geometric means over the reference: "
    )


def test_the_page_draws_the_time_of_each_solution_over_the_cases():
    plane = speed.over_cases(pivot_of(grid()))
    assert len(plane.lines) == 3, "two cases are joined by one line for each solution"
    titles = [dot.title for dot in plane.dots if "case" in dot.title]
    assert titles[:2] == ["a, case small: 50.0 µs", "a, case large: 400 µs"]
    assert [dot.label for dot in plane.dots if dot.label] == ["a", "b", "other"]
    (rising, falling) = [line.y[1] - line.y[0] for line in plane.lines[:2]]
    assert rising > falling > 0, "above is slower, and `a` grows more from case to case"
    assert len({line.kind for line in plane.lines}) == 3, "lines that cross are followed by their dashes"


def test_the_page_draws_the_rate_that_each_solution_reaches():
    plane = speed.over_cases(pivot_of(grid()), "TB/s")
    titles = [dot.title for dot in plane.dots if "case" in dot.title]
    cells = pivot_of(grid()).cells
    rates = [cells[case]["a"].work / cells[case]["a"].time_ns / 1e3 for case in ("small", "large")]
    assert titles[:2] == [f"a, case {case}: {units.number(rate)} TB/s" for case, rate in zip(cells, rates, strict=True)]
    assert (plane.y_axis, len(plane.lines)) == ("rate of a call", 3)


def test_a_case_that_failed_breaks_the_line():
    cases = [timed(name, case) for case in REFERENCE for name in ("a", "b")]
    broken = summarise(failed(Status.WRONG_VALUE, "off", solution="a", case="large"))
    assert len(speed.over_cases(pivot_of(run_of(*cases[:2], broken, cases[3]))).lines) == 1


@pytest.mark.parametrize("width", [60, 100])
def test_a_narrow_terminal_gets_the_solutions_in_several_tables(width):
    cases = [replace(timed("a", case), solution=f"solution_{n}") for case in REFERENCE for n in range(12)]
    lines = pivot_of(run_of(*cases)).text(width=width).splitlines()[1:]
    assert max(map(len, lines)) <= width
    assert sum(line.count("solution_") for line in lines) == 12
    assert sum(line.split()[:1] == ["case"] for line in lines) > 1


def test_one_solution_or_one_case_or_several_problems_have_none():
    assert pivot_of(grid("a")) is None
    assert pivot_of(run_of(timed("a", "small"), timed("b", "small"))) is None
    cases = grid().cases
    other = replace(cases[0], rows=tuple(replace(row, problem="other") for row in cases[0].rows))
    assert pivot_of(run_of(other, *cases[1:])) is None


def same_mistake(case, solution):
    reason = f"TypeError: {solution}() missing 1 required positional argument: 'x'"
    return failed(Status.INIT_FAILED, reason, solution=solution, case=case, log=reason)


def test_equal_failures_of_many_cases_are_one():
    cases = [summarise(same_mistake(f"c{n}", name)) for n in range(12) for name in ("a", "b", "c")]
    lines = text_of(run_of(*cases)).splitlines()
    assert len(lines) <= 15
    assert ["all", "12", "cases", "INIT_FAILED", "INIT_FAILED", "INIT_FAILED"] in [line.split() for line in lines]
    assert (
        sum(line.startswith("init_failed: a, b and c, all 12 cases: TypeError: a() missing 1") for line in lines) == 1
    )
    verbose = text_of(run_of(*cases), verbosity=1)
    assert verbose.count("init_failed: ") == 36


def test_failures_that_differ_in_more_than_numbers_are_told_one_by_one():
    at = (
        "output[0]: got 1, want 2",
        "output[7]: got 3, want 9e-5",
        "output[7]: got nan, want 1",
        "never writes the tail",
    )
    cases = [summarise(failed(Status.WRONG_VALUE, reason, solution="a", case=f"c{n}")) for n, reason in enumerate(at)]
    lines = [line for line in text_of(run_of(*cases)).splitlines() if line.startswith("wrong_value: ")]
    assert lines == [
        "wrong_value: a (3 cases): output[0]: got 1, want 2",
        "wrong_value: a, case c3: never writes the tail",
    ]


def test_what_was_left_out_is_said():
    assert "1 of 12 cases judged; `--case '*'` judges all" in text_of(run_of(timed("a", "small"), unjudged=11))
    assert "judges all" not in text_of(grid())


def test_means_count_forward_only_and_say_so() -> None:
    cases = [
        replace(summarise(passed(name, case)), speedup=speedup)
        for name in ("a", "b")
        for case, speedup in (("small", 2.0), ("small+backward", 8.0), ("large", 2.0))
    ]
    run = RunSummary(problem="square", cases=tuple(cases))
    assert run.speedup_of("a") == pytest.approx(2.0)
    assert run.speedup_of("a", "forward+backward") == pytest.approx(8.0)
    assert run.mean_name == "geometric mean (forward)"
