"""What is said of a sweep: figures by hand, and the four forms that they are told in."""

import json
import math
from dataclasses import replace

import pytest
from fakes import timing
from sweeping import failed, passed, task, verdict

from kbench.core.model import Case, Finding, Status
from kbench.engine.summary import Score, fast_p, mean_speedup, speedup_of, summarise, wilson
from kbench.engine.task import SweepPlanned, TaskVerdict
from kbench.report import swept
from kbench.report.table import as_markdown, as_text

S = Status
RATIO = 611_000 / 524_000
"""Of the fakes' samples: reference over candidate."""
VERDICTS = [
    verdict(1, passed(0)),
    verdict(2, passed(0), resumed=True),
    verdict(3, failed(S.WRONG_VALUE, "output[0] is <b>wrong</b>")),
    verdict(4, failed(S.HARNESS_ERROR, "the judge died")),
]
TRIVIAL = (Finding.note("trivial_passes", "zeros would pass"),)
SUMMARY = summarise(
    "one",
    VERDICTS,
    tasks=5,
    elapsed_s=36.0,
    units_per_hour=300.0,
    csv_path="r/one.csv",
)


def test_a_time_that_is_not_confirmed_counts_as_none() -> None:
    weak = passed(0)
    weak = replace(weak, outcome=replace(weak.outcome, timings=(replace(timing(0), attestation="weak"),)))
    found = summarise("one", [verdict(1, passed(0)), verdict(2, weak)], tasks=2)
    assert (found.speedup.count, found.held) == (1, 1)
    assert (found.fast[1.0].hits, found.fast[1.0].of) == (1, 2)


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0), (1, 1, 0.2065, 1.0)],
)
def test_wilsons_band(hits, of, low, high) -> None:
    """Values as tables have them (Wilson 1927, without continuity correction)."""
    found = wilson(hits, of)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)
    assert found.share == hits / of


def test_a_mean_of_speed_ups_is_geometric_with_an_interval_over_solutions() -> None:
    found = mean_speedup([Score(passed=True, speedup=value) for value in (2.0, 0.5, 1.0)])
    assert found.value == pytest.approx(1.0)
    half = 4.302652729911275 * math.log(2) / math.sqrt(3)  # t of 2 degrees of freedom; the deviation is log 2
    assert (found.low, found.high) == pytest.approx((math.exp(-half), math.exp(half)))
    assert mean_speedup([Score(passed=True, speedup=3.0)]).low is None
    assert mean_speedup([]) is None


def test_a_case_counts_as_often_as_its_weight_says() -> None:
    often, once = Score(passed=True, speedup=2.0, weight=3.0), Score(passed=True, speedup=0.5)
    found = mean_speedup([often, once])
    assert (found.value, found.low, found.name) == (pytest.approx(2**0.5), None, "weighted geometric mean")
    share = fast_p([often, once])[1.0]
    assert (share.hits, share.of, share.share) == (1, 2, 0.75)
    # Weights of 3 and 1 amount to 1.6 equal ones: 1.2 of 1.6.
    assert (share.low, share.high) == pytest.approx((wilson(1.2, 1.6).low, wilson(1.2, 1.6).high))
    alike = [Score(passed=True, speedup=2.0, weight=5.0), Score(passed=True, speedup=0.5, weight=5.0)]
    assert fast_p(alike)[1.0] == wilson(1, 2)
    assert mean_speedup(alike).name == "geometric mean"


def test_a_task_that_wrong_answers_pass_too_is_in_no_figure() -> None:
    """2/80 of KernelBench is zero whatever its inputs: who returns zeros is right, and 30,000 times as fast."""
    nothing = Score(passed=True, speedup=30_000.0, trivial=True)
    scores = [Score(passed=True, speedup=1.2), nothing, Score(passed=False)]
    assert mean_speedup(scores).value == pytest.approx(1.2)
    assert {p: (share.hits, share.of) for p, share in fast_p(scores).items()} == {
        0.0: (1, 2),
        1.0: (1, 2),
        1.5: (0, 2),
        2.0: (0, 2),
    }
    assert fast_p([nothing]) == {}
    found = summarise("one", [verdict(1, passed(findings=TRIVIAL))], tasks=1, elapsed_s=1.0)
    assert (found.trivial, found.speedup) == (1, None)
    assert swept.figures(found)["trivial"].startswith("1 pass")


def test_the_level_of_a_task_is_that_of_its_first_process() -> None:
    """Later processes verify no properties; one that fails takes the level along."""
    later = passed(1)
    later = replace(later, outcome=replace(later.outcome, level=None))
    found = [verdict(1, passed(0), later), verdict(2, passed(0), failed(S.WRONG_VALUE)), verdict(3, passed(0))]
    summary = summarise("one", found, tasks=3, elapsed_s=1.0)
    assert summary.levels == {"module": 2, "none": 1}


def test_figures_of_a_sweep() -> None:
    assert SUMMARY.statuses == {"passed": 2, "wrong_value": 1, "harness_error": 1}
    assert (SUMMARY.done, SUMMARY.left, SUMMARY.resumed, SUMMARY.not_judged) == (4, 1, 1, 1)
    assert {p: (share.hits, share.of) for p, share in SUMMARY.fast.items()} == {
        0.0: (2, 3),
        1.0: (2, 3),
        1.5: (0, 3),
        2.0: (0, 3),
    }, "what says nothing of a solution is in no share"
    assert speedup_of(VERDICTS[0]) == pytest.approx(RATIO)
    assert SUMMARY.speedup.value == pytest.approx(RATIO)
    assert SUMMARY.held == 2
    assert SUMMARY.units_per_hour == 300
    assert SUMMARY.stage_s == {"verify": 2.0, "time": 2.0}


def test_nothing_timed_is_no_speed_up() -> None:
    found = summarise("one", [verdict(1, passed(timed=False))], tasks=1, elapsed_s=1.0)
    assert list(found.fast) == [0.0]
    assert found.speedup is None
    assert "speed-up" not in swept.figures(found)


def test_text(golden) -> None:
    golden("sweep.txt", as_text(swept.blocks(SUMMARY, VERDICTS, verbosity=0)))


def test_markdown(golden) -> None:
    golden("sweep.md", as_markdown(swept.blocks(SUMMARY, VERDICTS, verbosity=1)))


def test_json_has_a_result_for_each_verdict() -> None:
    told = json.loads(swept.render_json(SUMMARY, VERDICTS, exit_code=70, hint=None))
    assert (told["command"], told["exit_code"], told["csv"]) == ("sweep", 70, "r/one.csv")
    assert [one["status"] for one in told["results"]] == ["passed", "passed", "wrong_value", "harness_error"]
    assert [one["retryable"] for one in told["results"]] == [False, False, False, True]
    assert told["results"][0]["speedup"] == pytest.approx(RATIO)
    assert told["summary"]["fast"][1]["p"] == 1.0
    assert told["summary"]["speedup"]["count"] == 2


def test_a_long_list_of_failures_is_cut() -> None:
    failures = [TaskVerdict(task=task(n), results=(failed(S.RAISED, "x" * 500),)) for n in range(30)]
    found = summarise("one", failures, tasks=30, elapsed_s=1.0)
    text = as_text(swept.blocks(found, failures, verbosity=0))
    assert "and 10 more" in text
    assert "x" * 200 not in text
    assert "more: `-v`" not in as_text(swept.blocks(found, failures, verbosity=1))


def test_constants_are_told_as_long_as_they_are_few():
    one = replace(verdict(1), task=task(1, case=Case(name="small", overrides={"dim1": 37})))
    found = summarise("s", [one], tasks=1, elapsed_s=1.0)
    for write in (as_text, as_markdown):
        assert "case small: dim1=37" in write(swept.blocks(found, [one]))
    many = [replace(verdict(n), task=task(n, case=Case(name=f"c{n}", overrides={"n": n}))) for n in range(4)]
    assert "constants of 4 cases: `--json` has them" in as_text(swept.blocks(found, many, verbosity=0))


@pytest.mark.parametrize(("tasks", "counted"), [(1, "1 verdict ·"), (12, "12 verdicts ·")])
def test_a_sweep_counts_in_words(tasks: int, counted: str) -> None:
    planned = SweepPlanned(run="one", tasks=tasks, resumed=0, devices=("cpu",), lanes=1, jobs=2)
    assert f" {counted} on cpu" in swept.describe(planned, 0, tasks)
