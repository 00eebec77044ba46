"""README's tables and the plot are what the committed results say, and every measured source is as it was measured."""

import importlib.util
import itertools
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from records import make_row, make_run

from kbench.compare import compare
from kbench.plugins import registry
from kbench.storage import results
from kbench.storage.settings import Settings

ROOT = Path(__file__).parent.parent
GROUP_NORM = "group_norm"


def load():
    spec = importlib.util.spec_from_file_location("evidence", ROOT / "docs" / "evidence.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


evidence = load()


@pytest.fixture(scope="module")
def made():
    return evidence.make(evidence.RESULTS)


def test_readme_shows_what_the_results_say(made):
    page = evidence.README.read_text(encoding="utf-8")
    assert page == evidence.fill(page, made[0]), "run `make evidence`"


def test_the_plot_shows_what_the_results_say(made):
    assert evidence.PLOT.read_text(encoding="utf-8") == made[1], "run `make evidence`"


def test_a_source_that_changed_since_its_measurement_is_listed_and_nothing_else_is(made):
    assert made[2] == [], "\n".join(made[2])


def sources_of(run, solution):
    return {row.source_sha256 for row in run.rows if row.solution == solution}


def test_runs_of_the_same_sources_agree_on_any_card():
    """Wherever two files have times of one source, the bounds of its change hold that there is none: 99 % do."""
    runs = [results.read_run(path) for path in sorted(evidence.RESULTS.rglob("*.csv")) if ".samples" not in path.name]
    alike = [(run, (run.rows[0].problem, run.rows[0].gpu_name)) for run in runs]
    pairs = [(old, new) for (old, mine), (new, theirs) in itertools.combinations(alike, 2) if mine == theirs]
    verdicts = [
        case.verdict
        for old, new in pairs
        for case in compare([old, new]).cases
        if sources_of(old, case.solution) == sources_of(new, case.solution)
    ]
    bounded = [verdict for verdict in verdicts if verdict.low is not None]
    assert bounded
    missed = [verdict for verdict in bounded if not verdict.low <= 1 <= verdict.high]
    assert len(missed) <= len(bounded) / 100, missed


@pytest.fixture
def solutions():
    return {GROUP_NORM: registry.solutions(registry.find_problem(GROUP_NORM, Settings()), Settings())}


def current_row(entries, name):
    entry = next(entry for entry in entries if entry.name == name)
    problem = next(entry for entry in entries if entry.name == "eager")
    return make_row(
        solution=name,
        source_sha256=evidence.sources.source_sha256(entry.path, entry.variant),
        problem_sha256=evidence.sources.source_sha256(problem.path),
    )


@pytest.mark.parametrize("name", ["two_kernel", "single_pass", "eager", "compile"])
def test_only_an_unchanged_source_counts_as_measured(name, solutions):
    row = current_row(solutions[GROUP_NORM], name)
    assert evidence.stale_sources([row], solutions) == set()
    for change in ({"source_sha256": "0" * 64}, {"problem_sha256": "0" * 64}, {"solution": "gone"}):
        changed = replace(row, **change)
        assert evidence.stale_sources([changed], solutions) == {(GROUP_NORM, changed.solution, changed.source_sha256)}


OLD, OTHER = ("p", "s", "1" * 64), ("p", "s", "2" * 64)


@pytest.mark.parametrize(
    ("stale", "listed", "said"),
    [
        (set(), {}, []),
        ({OLD}, {OLD: "why"}, []),
        ({OLD}, {}, ["has changed since it was measured"]),
        (set(), {OLD: "why"}, ["is as it was measured"]),
        ({OTHER}, {OLD: "why"}, ["has changed since", "is as it was"]),  # a new measurement ends an old excuse
        ({OLD}, {OLD: ""}, ["gives no reason"]),
    ],
)
def test_the_list_of_stale_sources_is_exact(stale, listed, said):
    complaints = evidence.complaints(stale, listed)
    assert len(complaints) == len(said)
    assert all(part in text for part, text in zip(said, complaints, strict=True))


@pytest.fixture
def run(tmp_path):
    ratios = {"eager": [1.0, 1.0], "slow": [0.9, 0.9], "fast": [0.25, 0.25], "broken": []}
    return make_run(tmp_path, "run", ratios, case="default", limit_ns=75_000_000, dram_bytes=10**8, flops=0)


def test_a_panel_hides_nothing(run):
    panel = evidence.panel(run, ["fast", "forgotten"], {(GROUP_NORM, "slow", "5" * 64): "why"})
    lines = {line.solution: line for line in panel.lines}
    assert list(lines) == ["fast", "slow", "eager", "broken", "forgotten"]
    assert lines["fast"].time_ns == pytest.approx(37.5e6, rel=0.01)
    assert lines["fast"].speedup.centre == pytest.approx(4.0, rel=0.01)
    assert lines["fast"].percent_of_limit == pytest.approx(200, rel=0.01)
    assert lines["fast"].remark == "faster than fp32 arithmetic allows"
    assert lines["slow"].remark == "source has changed since"
    assert lines["broken"].remark == "failed: crashed (1 of 1 processes)"
    assert lines["forgotten"].remark == "not measured"
    text = evidence.tables([panel])
    assert "| fast | 37.5 | 4.00× | 200 % | faster than fp32 arithmetic allows |" in text
    assert "| broken | – | – | – | failed: crashed (1 of 1 processes) |" in text


def test_a_time_that_the_judge_does_not_confirm_has_two_digits(run):
    rows = [replace(row, attestation="weak" if row.solution == "slow" else "held") for row in run.rows]
    text = evidence.tables([evidence.panel(replace(run, rows=tuple(rows)), [], ())])
    assert "| slow | 135 | ~1.1× | 56 % | not confirmed by the judge's clock in 2 of 2 processes |" in text
    assert "| 4.00× |" in text


def test_bars_are_as_long_as_the_times(run):
    panel = evidence.panel(run, [], ())
    drawing = ET.fromstring(evidence.plot([panel]))
    name = "{http://www.w3.org/2000/svg}"
    widths = [float(bar.get("width")) for bar in drawing.iter(f"{name}rect")]
    limit = next(line for line in drawing.iter(f"{name}line") if line.get("class") == "limit")
    unit = widths[2] / 150e6  # eager takes 150 ms
    assert widths == pytest.approx([37.5e6 * unit, 135e6 * unit, 150e6 * unit], rel=0.01)
    assert float(limit.get("x1")) - evidence.LEFT == pytest.approx(75e6 * unit, rel=0.01)
    texts = [text.text for text in drawing.iter(f"{name}text")]
    assert "failed: crashed (1 of 1 processes)" in texts
    assert "time of a call, ms" in texts


@pytest.mark.parametrize(
    ("largest", "step", "count"), [(8.92, 2, 5), (2.29, 0.5, 5), (3.49, 1, 4), (1.0, 0.2, 5), (0.287, 0.05, 6)]
)
def test_an_axis_has_round_ticks_that_reach_the_largest(largest, step, count):
    assert evidence.scale(largest) == (pytest.approx(step), count)


def test_a_page_without_markers_is_refused():
    with pytest.raises(ValueError, match="not found"):
        evidence.fill("no markers", "text")
