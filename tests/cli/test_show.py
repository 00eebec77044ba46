"""`kbench show`: a saved run says what the run itself said."""

import csv
import json
from pathlib import Path

import pytest
from records import FIVE, make_run

from kbench.storage import details
from kbench.storage.details import CaseDetails, RunDetails

RESULTS = Path("results")
RATIOS = FIVE[:3]
INTERVAL = {"speedup_low": 1.998, "speedup_high": 2.002}


@pytest.fixture(autouse=True)
def run():
    return make_run(
        RESULTS, "saved", {"fast": RATIOS, "broken": []}, wobble=0.001, findings="mean_offset_30", **INTERVAL
    )


def test_the_latest_run_is_shown_by_default(kbench, golden):
    done = kbench("show")
    assert done.code == 0
    golden("show.txt", done.out.rstrip("\n"))


def test_what_a_solution_printed_is_shown(kbench):
    """Also when it passed: a long log in part, and all of it with `-v`."""
    (path,) = RESULTS.glob("saved.csv")
    started = next(csv.DictReader(path.open()))["started_utc"]
    lines = "\n".join(f"line {number}" for number in range(13))
    told = CaseDetails(solution="fast", case="small", log=lines)
    details.write(path, RunDetails(started_utc=started, command="kbench run", cases=(told,)))
    shown = kbench("show", "saved").out
    assert "printed by fast, case small\n  | line 1\n" in shown
    assert "  | line 12\n  … 1 more line with `-v`\n" in shown
    assert "  | line 0\n" in kbench("show", "saved", "-v").out


def test_whose_kernels_ran_is_told_in_every_report(kbench):
    make_run(RESULTS, "fell_back", {"fast": RATIOS}, own_share=0.0, flags="library_time", **INTERVAL)
    text = kbench("show", "fell_back", "-v").out
    assert "warning: fast, case small: at most 1 % of a call's time is spent in the solution's own kernels" in text
    assert "look for a caught exception around their load" in text
    assert "memory  in own kernels" in text
    (case,) = kbench("show", "fell_back", "--json").document["results"]
    assert (case["own_share"], {row["own_share"] for row in case["rows"]}) == (0.0, {0.0})


def test_every_format_keeps_every_row(kbench):
    document = kbench("show", "saved", "--json").document
    assert [(case["solution"], case["status"]) for case in document["results"]] == [
        ("fast", "passed"),
        ("broken", "crashed"),
    ]
    rows = kbench("show", "saved", "--format", "csv").rows
    assert rows == list(csv.DictReader((RESULTS / "saved.csv").open()))
    assert "| broken | small | CRASHED |" in kbench("show", "saved", "--format", "md").out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("show", "svaed"), 2, "hint: did you mean `saved`?"),
        (("show", "saved", "--case", "none"), 5, "has no such case"),
    ],
)
def test_errors(kbench, arguments, code, message):
    done = kbench(*arguments)
    assert done.code == code
    assert message in done.err


def test_the_records_of_pytorchs_dashboard_have_a_value_per_process_of_what_passed(kbench):
    """As the dashboard's own page describes them: benchmark, model, and one metric with its values a record."""
    make_run(RESULTS, "board", {"fast": RATIOS, "broken": []}, wall_ns=[1000, 2000, 3000], **INTERVAL)
    records = json.loads(kbench("export", "board", "--to", "pytorch-benchmark").out)
    assert {tuple(sorted(one)) for one in records} == {("benchmark", "dependencies", "metric", "model")}
    found = {(one["model"]["backend"], one["metric"]["name"]): one["metric"] for one in records}
    assert found["fast", "passed"] == {"name": "passed", "benchmark_values": [1], "target_value": 1}
    assert found["broken", "passed"]["benchmark_values"] == [0]
    assert [name for solution, name in found if solution == "broken"] == ["passed"], "a failure has no times"
    assert found["fast", "wall_us"]["benchmark_values"] == [1.0, 2.0, 3.0]
    assert len(found["fast", "time_us"]["benchmark_values"]) == 3
    assert found["fast", "time_us"]["target_value"] < min(found["fast", "time_us"]["benchmark_values"]), "the limit"
    benchmark, model = records[0]["benchmark"], records[0]["model"]
    assert (benchmark["name"], benchmark["dtype"], benchmark["extra_info"]["arch"]) == (
        "kbench",
        "float32",
        "NVIDIA H200",
    )
    assert (model["name"], model["type"]) == ("group_norm", "kernel")
