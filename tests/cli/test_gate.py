"""`kbench gate` and `kbench baseline`: exit codes, reports, and the files that CI reads."""

import csv
import io
import re
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from records import FIVE, make_run, times

from kbench.compare import measurements
from kbench.core.events import StageFinished
from kbench.core.model import Time
from kbench.gate import confirm
from kbench.storage import csvfile

RESULTS = Path("results")
WALLS = [104_000, 104_030, 103_980, 104_010, 104_020]


def baseline(kbench, solutions: dict) -> None:
    make_run(RESULTS, "main", solutions, git_commit="a1b2c3d", wall_ns=WALLS)
    assert kbench("baseline", "set", "main").code == 0


@pytest.fixture
def regressed(kbench):
    """Five cases: one slower, one newly failing, one fixed, one faster, one the same."""
    baseline(kbench, {"quick": FIVE, "broken": FIVE, "fixed": [], "fast": FIVE, "steady": FIVE})
    make_run(
        RESULTS,
        "pr-42",
        {"quick": times(1.078), "broken": [], "fixed": FIVE, "fast": times(0.9), "steady": times(1.0001)},
    )


def test_a_regression_fails_and_says_what_to_type(kbench, regressed, golden):
    done = kbench("gate", "pr-42")
    assert done.code == 1
    golden("gate_failed.txt", done.out.rstrip("\n"))


def test_verbose_shows_every_case_and_quiet_the_headline(kbench, regressed):
    assert len(kbench("gate", "pr-42", "-q").out.splitlines()) == 1
    assert "group_norm/steady/small" in kbench("gate", "pr-42", "-v").out


def test_machine_formats(kbench, regressed, golden):
    document = kbench("gate", "pr-42", "--json").document
    assert (document["status"], document["exit_code"]) == ("failed", 1)
    assert {line["solution"]: line["verdict"] for line in document["results"]} == {
        "quick": "slower",
        "broken": "new_fail",
        "fixed": "newly_fixed",
        "fast": "faster",
        "steady": "same",
    }
    rows = kbench("gate", "pr-42", "--format", "csv").rows
    assert [row["outcome"] for row in rows].count("failed") == 2
    golden("gate.md", kbench("gate", "pr-42", "--format", "md", "-v").out.rstrip("\n"))


def test_junit_annotations_and_summary(kbench, regressed, golden, monkeypatch, tmp_path):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "step.md"))
    Path("step.md").write_text("before\n")
    done = kbench("gate", "pr-42", "--github", "--junit", "out/gate.xml")
    assert done.code == 1
    golden("gate_annotations.txt", done.err.rstrip("\n"))
    golden("gate_junit.xml", Path("out/gate.xml").read_text().rstrip("\n"))
    suite = Xml.parse("out/gate.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("5", "2")
    assert Path("step.md").read_text().startswith("before\n### GATE FAILED"), "it is appended"


def test_the_hint_of_a_failed_gate_can_be_typed(kbench):
    baseline(kbench, {"quick": FIVE})
    make_run(RESULTS, "pr", {"quick": times(2.5)})
    failed = kbench("gate", "pr").out
    assert kbench(*re.search(r"`kbench (baseline set .*)`", failed)[1].split()).code == 0
    assert kbench("gate", "pr").code == 0


def test_either_time_can_be_held(kbench, tmp_path):
    """The device's time is the same; a plain loop takes 10 % longer."""
    baseline(kbench, {"fast": FIVE})
    make_run(RESULTS, "pr", {"fast": FIVE}, wall_ns=[wall * 1.1 for wall in WALLS])
    make_run(RESULTS, "old", {"fast": FIVE}, wall_ns=None, ref_wall_ns=None)
    assert kbench("gate", "pr").code == 0
    wall = kbench("gate", "pr", "--time", "wall")
    assert wall.code == 1
    assert (
        wall.out.splitlines()[0]
        == "GATE FAILED  1 slower of 1 cases, pr against main, wall times, slow cases not measured a second time"
    )
    assert "wall time above +0.5 %" in wall.out
    assert kbench("gate", "pr", "--time", "wall", "--json").document["time"] == "wall"
    rows = kbench("gate", "pr", "--time", "wall", "--format", "csv").rows
    assert rows[0]["time"] == "wall"
    (tmp_path / "pyproject.toml").write_text('[tool.kbench.gate]\ntime = "wall"\n')
    assert kbench("gate", "pr").code == 1, "the setting"
    assert kbench("gate", "pr", "--time", "device").code == 0, "a flag wins"
    without = kbench("gate", "old")
    assert without.code == 3
    assert "the new run has no wall times" in without.out


def test_confirm_measures_flagged_cases_again(kbench, monkeypatch, tmp_path):
    baseline(kbench, {"quick": FIVE, "slow": FIVE})
    make_run(RESULTS, "pr", {"quick": times(1.05), "slow": times(1.05)})
    fresh = make_run(tmp_path / "fresh", "again", {"quick": times(1.0), "slow": times(1.05)})
    asked = []

    def by_running(run, settings, watch, time):
        assert time is Time.DEVICE

        def look(keys, processes):
            asked.append((keys, processes))
            watch(
                StageFinished(stage="time", solution="slow", case="small", process=0, ok=True, elapsed_s=1, detail="")
            )
            return {key: found for key, found in measurements(fresh).items() if key in keys}

        return look

    monkeypatch.setattr(confirm, "by_running", by_running)
    done = kbench("gate", "pr", "--confirm", "--json", "-v")
    assert "time    slow  small  process 0  ok" in done.err, "the second look shows its progress"
    document = done.document
    assert {line["solution"]: line["verdict"] for line in document["results"]} == {"quick": "unclear", "slow": "slower"}
    assert document["confirmed"]
    assert asked[0][1] >= 5


def test_one_unclear_case_of_two_is_a_warning_and_strict_makes_it_4(kbench):
    baseline(kbench, {"fast": FIVE, "steady": FIVE})
    make_run(RESULTS, "pr", {"fast": FIVE[:1], "steady": FIVE})
    done = kbench("gate", "pr")
    assert (done.code, done.out.split()[:2]) == (0, ["GATE", "PASSED"])
    assert "1 unclear, not counted" in done.out
    assert kbench("gate", "pr", "--strict").code == 4


def test_a_gate_with_unclear_cases_alone_is_inconclusive(kbench):
    baseline(kbench, {"fast": FIVE})
    make_run(RESULTS, "pr", {"fast": FIVE[:1]})
    done = kbench("gate", "pr")
    assert done.code == 4
    assert done.out.startswith("INCONCLUSIVE  1 of 1 cases unclear")
    assert "hint: measure with more processes: `kbench run group_norm fast --case small --processes 5`" in done.out
    Path("pyproject.toml").write_text('[tool.kbench.gate]\nunclear = "pass"\n')
    assert kbench("gate", "pr").code == 0


@pytest.mark.parametrize(
    "column",
    ["time_ns_median", "ref_time_ns_median", "speedup", "speedup_low", "samples", "sm_clock_mhz", "percent_of_limit"],
)
def test_an_edited_figure_is_refused_on_either_side(kbench, column):
    baseline(kbench, {"fast": FIVE})
    kept = next(path for path in (RESULTS / "baselines").rglob("main/*.csv") if ".samples" not in path.name)
    for path, command in ((kept, ("gate", "main")), (RESULTS / "main.csv", ("baseline", "set", "main"))):
        whole = path.read_text()
        rows = list(csv.reader(io.StringIO(whole)))
        rows[2][rows[0].index(column)] = "42"
        path.write_text("".join(csvfile.line(row) for row in rows))
        done = kbench(*command)
        assert done.code == 2
        assert f"was edited: group_norm/fast/small, process 1: `{column}` is 42" in done.err
        assert f"git checkout -- {path}" in done.err
        path.write_text(whole)
    assert kbench("gate", "main").code == 0


def test_baseline_show_lists_what_set_made(kbench):
    assert "no baseline yet" in kbench("baseline", "show").err
    baseline(kbench, {"fast": FIVE})
    line = kbench("baseline", "show").out.splitlines()[1]
    assert line.split() == ["main", "nvidia-h200", "group_norm", "a1b2c3d", "fast", "small"]
    assert kbench("baseline", "show", "--json").document["results"][0]["baseline"] == "main"
