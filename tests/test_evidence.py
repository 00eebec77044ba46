"""README's table and the plot are what the committed results say, and every measured source is as it was measured."""

import importlib.util
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from records import make_row, make_run

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


@pytest.fixture
def measured_file(tmp_path, monkeypatch):
    """Stand in for a checkout with one source, which is recorded as measured."""
    monkeypatch.setattr(evidence, "ROOT", tmp_path)
    path = tmp_path / "fast.cu"
    path.write_text("one")
    return path


def test_only_an_unchanged_source_counts_as_measured(measured_file):
    row = make_row(solution="fast")
    key = (row.problem, "fast", row.source_sha256)
    recorded = {key: evidence.Recorded(files=("fast.cu",), sha256=evidence.content_digest(["fast.cu"]))}
    assert evidence.stale_sources([row], recorded) == set()
    for change in ({"source_sha256": "0" * 64}, {"solution": "gone"}):
        changed = replace(row, **change)
        assert evidence.stale_sources([changed], recorded) == {(row.problem, changed.solution, changed.source_sha256)}
    measured_file.write_text("two")
    assert evidence.stale_sources([row], recorded) == {key}
    measured_file.unlink()
    assert evidence.stale_sources([row], recorded) == {key}


def test_a_new_measurement_records_the_files_of_the_checkout(measured_file, tmp_path):
    old = make_row(solution="fast")
    recorded = {(old.problem, "fast", old.source_sha256): evidence.Recorded(files=("fast.cu",), sha256="")}
    measured_file.write_text("two")
    new = replace(old, source_sha256="7" * 64)
    (tmp_path / evidence.SOURCES).write_text(evidence.record([new, new], recorded))
    again = evidence.read_recorded(tmp_path)
    assert list(again) == [(old.problem, "fast", "7" * 64)]
    assert evidence.stale_sources([new], again) == set()
    with pytest.raises(KeyError):
        evidence.record([replace(new, solution="unknown")], recorded)


def test_every_solution_of_a_run_has_its_own_file_and_its_problem_recorded():
    for (problem, solution, _), each in evidence.read_recorded(evidence.RESULTS).items():
        assert f"kbench/problems/{problem}.py" in each.files
        own = f"kbench/solutions/{problem}/{solution}.py"
        assert own in each.files or not (ROOT / own).exists()


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
    assert lines["fast"].remark == "faster than the limit"
    assert lines["slow"].remark == "source has changed since"
    assert lines["broken"].remark == "failed: crashed (1 of 1 processes)"
    assert lines["forgotten"].remark == "not measured"


def test_the_table_has_the_fastest_solution_of_each_problem(run):
    panel = evidence.panel(run, ["fast", "compile"], ())
    text = evidence.table([panel])
    assert "| `group_norm` | `fast` | 37.5 ms | 4.00× | – | 150 ms | 200 % | faster than the limit" in text
    alone = replace(panel, lines=tuple(line for line in panel.lines if line.solution == "broken"))
    assert "| `broken` | – | – | – | – | – | failed: crashed (1 of 1 processes) |" in evidence.table([alone])


def test_a_time_that_the_judge_does_not_confirm_has_two_digits(run):
    rows = [replace(row, attestation="weak" if row.solution == "fast" else "held") for row in run.rows]
    text = evidence.table([evidence.panel(replace(run, rows=tuple(rows)), [], ())])
    assert "| ~4.0× |" in text
    assert "not confirmed by the judge's clock in 2 of 2 processes |" in text


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
