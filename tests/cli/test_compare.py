"""`kbench compare`: from saved runs to a verdict per case, in every format."""

import re
from pathlib import Path

import pytest
from records import FIVE, make_run, times

RESULTS = Path("results")
H200 = Path(__file__).parents[2] / "results" / "h200"
FAST = {"fast": FIVE}


@pytest.fixture
def runs(tmp_path):
    make_run(RESULTS, "main", {"fast": FIVE, "steady": FIVE, "fixed": [], "broken": FIVE, "quick": FIVE})
    make_run(
        RESULTS,
        "pr-42",
        {"fast": times(0.9), "steady": times(1.0001), "fixed": FIVE, "broken": [], "quick": times(1.078)},
    )


def test_two_runs_worst_first(kbench, runs, golden):
    done = kbench("compare", "main", "pr-42")
    assert (done.code, done.err) == (0, "")
    golden("compare.txt", done.out.rstrip("\n"))


def test_times_have_the_digits_that_show_gives_them(kbench):
    run = str(H200 / "group_norm.csv")
    shown = dict(re.findall(r"^  (\w+) +default +passed +general +([\d.]+)", kbench("show", run).out, re.M))
    compared = dict(re.findall(r"^  \w+ +(\w+) +default +general +[\d.]+ +([\d.]+)", kbench("compare", run).out, re.M))
    assert len(shown) == 5
    shown.pop("eager")  # the base, in a column of its own
    assert compared == shown


def test_verbose_draws_intervals_and_quiet_keeps_the_summary(kbench, runs, golden):
    golden("compare_verbose.txt", kbench("compare", "main", "pr-42", "-v").out.rstrip("\n"))
    summary = kbench("compare", "main", "pr-42", "-q").out.splitlines()
    assert len(summary) == 1
    assert summary[0].startswith("5 cases: 1 new fail, 1 slower, 1 newly fixed, 1 faster, 1 same")


def test_a_mean_of_times_that_no_clock_confirms_has_two_digits(kbench):
    make_run(RESULTS, "old", {"fast": FIVE}, attestation="weak")
    make_run(RESULTS, "new", {"fast": times(0.4)}, attestation="weak")
    done = kbench("compare", "old", "new").out
    assert done.splitlines()[-1] == "1 case: 1 faster · geometric mean ~2.5× faster"
    assert "; the judge's clock does not confirm the times" in " ".join(done.split())


def test_solutions_of_one_run(kbench, golden):
    make_run(RESULTS, "main", {"eager": FIVE, "mine": times(0.8)})
    golden("compare_solutions.txt", kbench("compare", "main").out.rstrip("\n"))


def test_machine_formats(kbench, runs, golden):
    document = kbench("compare", "main", "pr-42", "--json").document
    assert document["counts"]["slower"] == 1
    slower = next(line for line in document["results"] if line["verdict"]["status"] == "slower")
    assert slower["verdict"]["ratio"] == pytest.approx(1.078, rel=1e-3)
    assert "timings" not in slower["new"]
    rows = kbench("compare", "main", "pr-42", "--format", "csv").rows
    assert [row["verdict"] for row in rows] == ["new_fail", "slower", "newly_fixed", "faster", "same"]
    golden("compare.md", kbench("compare", "main", "pr-42", "--format", "md").out.rstrip("\n"))


def test_wall_times_are_compared_when_asked_for(kbench):
    make_run(RESULTS, "main", FAST, wall_ns=[100_000, 100_030, 99_980, 100_010, 100_020])
    make_run(RESULTS, "pr-42", FAST, wall_ns=[80_000, 80_030, 79_980, 80_010, 80_020])
    make_run(RESULTS, "old", FAST, wall_ns=None, ref_wall_ns=None)
    assert "device time within ±2 %" in kbench("compare", "main", "pr-42").out
    text = kbench("compare", "main", "pr-42", "--time", "wall").out
    assert "cold · wall time" in text
    assert "wall time below −0.5 %" in text
    assert "100" in text
    assert "of limit" not in text, "the limit is one of the device's time"
    document = kbench("compare", "main", "pr-42", "--time", "wall", "--json").document
    assert document["time"] == "wall"
    assert document["results"][0]["verdict"]["ratio"] == pytest.approx(0.8, rel=1e-3)
    (row,) = kbench("compare", "old", "main", "--time", "wall", "--format", "csv").rows
    assert (row["verdict"], row["reason"], row["time"]) == ("not_comparable", "the old run has no wall times", "wall")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("main", "--base", "mien"), 2, "main has no solution `mien`"),
        (("main", "--case", "none"), 5, "no case to compare"),
        (("main", "--slower", "x"), 2, "Invalid value for '--slower'"),
        ((), 2, "Missing argument 'RUN'"),
    ],
)
def test_errors(kbench, runs, arguments, code, message):
    make_run(RESULTS, "other-gpu", FAST, gpu_name="NVIDIA A100")
    done = kbench("compare", *arguments)
    assert done.code == code
    assert message in done.err
    assert kbench("compare", *arguments, "--json").document["reason"].count(message) == 1


def test_one_solution_alone_is_nothing_to_compare(kbench):
    make_run(Path("results"), "alone", {"only": FIVE[:3]}, wobble=0.001)
    done = kbench("compare", "alone")
    assert done.code == 5
    assert "there is nothing to compare `only` with" in done.err
