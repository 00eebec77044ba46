"""`kbench report`: one page that says what the terminal says, and in which no candidate can say more than words."""

import json
import sys
from pathlib import Path

import pytest
from pages import Page
from records import FIVE, make_run
from sweeping import passed, task

from kbench.core.errors import ResultsError
from kbench.core.model import Finding, FindingKind
from kbench.engine.journal import Header, Journal
from kbench.engine.task import TaskVerdict
from kbench.storage import details
from kbench.storage.details import CaseDetails, RunDetails

RESULTS = Path("results")
RATIOS = FIVE[:3]
INTERVAL = {"speedup_low": 1.998, "speedup_high": 2.002}
EVIL = '"><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7*7 }}'


def page(kbench, *arguments: str) -> Page:
    done = kbench("report", *arguments, "-o", "-")
    assert (done.code, done.err) == (0, "")
    return Page(done.out)


@pytest.fixture
def run():
    return make_run(
        RESULTS, "saved", {"fast": RATIOS, "broken": []}, wobble=0.001, findings="mean_offset_30", **INTERVAL
    )


def test_a_run(kbench, run, golden):
    golden("report.html", kbench("report", "saved", "-o", "-").out.rstrip("\n"))


def test_it_is_written_beside_the_run(kbench, run):
    done = kbench("report")
    assert (done.code, done.out) == (0, "results/saved.html\n")
    assert kbench("report", "--json").document["path"] == "results/saved.html"


def test_it_says_what_the_terminal_says(kbench, run):
    found = page(kbench, "saved")
    shown = kbench("show", "saved").out
    for line in shown.splitlines():
        if line.startswith(("warning: ", "note: ", "hint: ", "level: ")):
            assert found.says(line.partition(": ")[2]), line
    for text in ("batch_size=2, dim1=64", "2.0003×", "1.9980 … 2.0020", "25 %", "crashed", "signal 11", "NVIDIA H200"):
        assert found.says(text), text
    assert found.foreign == set()


def test_a_run_with_its_details(kbench, run):
    details.write(
        run.path,
        RunDetails(
            started_utc=run.rows[0].started_utc,
            command="kbench run group_norm fast --name saved --set dim1=64",
            elapsed_s=12.0,
            reference_s={"small": {"open": 1.5}},
            cases=(
                CaseDetails(
                    solution="fast",
                    case="small",
                    findings=(Finding(code="odd", kind=FindingKind.TIMING, message="clocks were odd"),),
                    log="hello from the kernel",
                    stage_s={"build": 3.0, "verify": 2.0},
                ),
            ),
        ),
    )
    found = page(kbench, "saved")
    for text in (
        "kbench run group_norm fast --set dim1=64",
        "clocks were odd",
        "hello from the kernel",
    ):
        assert found.says(text), text
    assert "clocks were odd" in kbench("show", "saved").out, "show says what the run said"


def test_details_of_another_run_are_not_believed(kbench, run):
    details.write(run.path, RunDetails(started_utc="2020-01-01T00:00:00Z", command="another"))
    assert not page(kbench, "saved").says("another")
    details.details_path(run.path).write_text("{")
    assert not page(kbench, "saved").says("another")


@pytest.mark.parametrize("number", ["1e999", "NaN", "-Infinity", "9" * 400])
def test_details_with_numbers_that_nobody_measured_are_not_believed(kbench, run, number):
    details.write(run.path, RunDetails(started_utc=run.rows[0].started_utc, elapsed_s=12.5, command="mine"))
    place = details.details_path(run.path)
    place.write_text(place.read_text().replace("12.5", number))
    assert "mine" not in kbench("report", "saved", "-o", "-").out


@pytest.mark.parametrize("constants", ["", "{", "1e400", "[1]", "[" * 100_000])
def test_constants_that_are_none_are_refused(kbench, constants):
    with pytest.raises(ResultsError, match="has no JSON object as `overrides` in line 2"):
        make_run(RESULTS, "odd", {"fast": RATIOS}, overrides=constants)
    assert kbench("report", "odd", "-o", "-").code == 2


def test_candidates_can_say_nothing_but_words(kbench):
    found = make_run(
        RESULTS,
        "evil",
        {EVIL: [*RATIOS]},
        case=EVIL,
        problem=EVIL,
        overrides=json.dumps({EVIL: EVIL}),
        gpu_name=EVIL,
        findings=EVIL.replace(" ", ""),
        flags=EVIL.replace(" ", ""),
        flops=10**9,
    )
    finding = Finding(code=EVIL, kind=FindingKind.NOTE, message=f"mine.py:2: {EVIL}")
    told = CaseDetails(solution=EVIL, case=EVIL, findings=(finding,), log=EVIL, stage_s={EVIL: 1.0})
    details.write(found.path, RunDetails(started_utc=found.rows[0].started_utc, command=EVIL, cases=(told,)))
    shown = page(kbench, "evil")
    assert shown.foreign == set()
    assert shown.says(EVIL)
    assert shown.says(f"mine.py:2: {EVIL}")


def sweep(name: str, *verdicts: TaskVerdict) -> Path:
    """Make a sweep of a saved run, by its journal."""
    path = RESULTS / f"{name}.journal.jsonl"
    with Journal(path, Header(run=name, started_utc="2020-01-01T00:00:00+00:00", arguments={})) as journal:
        for judged in verdicts:
            journal.append(judged)
    return path


def test_hostile_names_in_a_sweep(kbench):
    make_run(RESULTS, "new", {EVIL: RATIOS}, case=EVIL, problem=EVIL)
    sweep("new")
    shown = page(kbench, "new")
    assert shown.says("fast_p: p = 0")
    assert shown.foreign == set()
    assert shown.says(EVIL)


def test_a_run_without_its_samples_is_shown_with_a_warning(kbench, run):
    (RESULTS / "saved.samples.csv").unlink()
    assert page(kbench, "saved").says("the raw samples are missing")
    assert kbench("show", "saved").code == 2


def test_a_sweep_with_its_journal(kbench):
    make_run(RESULTS, "swept", {"s1": RATIOS, "s2": []}, problem="p", case="default")
    sweep("swept", TaskVerdict(task=task(1, claim=7.5), results=(passed(stage_s={"verify": 61.0}),)))
    found = page(kbench, "swept")
    for text in ("1 of 2 pass", "p = 1.5: ", "7.5×", "processes an hour", "signal 11"):
        assert found.says(text), text
    (RESULTS / "swept.journal.jsonl").write_text("{}\n")
    assert page(kbench, "swept").says("claims and rates are not shown")


def test_the_chart_has_the_largest_speedups_and_the_table_all(kbench):
    for name, most in (("few", 60), ("many", 61)):
        make_run(RESULTS, name, {f"model{n}": [1 / n] for n in range(1, most + 1)})
        sweep(name)
    assert not page(kbench, "few").says("largest of")
    found = page(kbench, "many")
    assert found.says("The 60 largest of 61")
    chart = found.words.partition("largest of 61")[2].partition("What is right")[0]
    assert "model1\n" not in chart
    assert chart.index("model61\n") < chart.index("model2\n"), "the largest first"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("svaed",), 2, "did you mean `saved`?"),
        (("saved", "--slower", "1%"), 2, "add `--history`"),
        (("saved", "--json", "-o", "-"), 2, "stdout has one document"),
        (("saved", "-o", "absent/page.html"), 3, "write elsewhere with `-o FILE`"),
    ],
)
def test_errors(kbench, run, arguments, code, message):
    done = kbench("report", *arguments)
    assert done.code == code
    assert message in done.err + done.out


def test_markdown_has_every_warning(kbench):
    make_run(RESULTS, "warned", {"fast": RATIOS}, flags="throttled", findings="mean_offset_30")
    text = kbench("show", "warned", "--format", "md").out.replace("\\", "")
    for line in kbench("show", "warned").out.splitlines():
        if line.startswith(("warning: ", "note: ", "hint: ")):
            assert line in text


def test_without_jinja2_it_says_what_to_install(kbench, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    done = kbench("report", "saved", "-o", "-")
    assert (done.code, done.out) == (3, "")
    assert "pip install 'kbench[html]'" in done.err


def test_a_history_of_a_folder_has_steps_and_charts(kbench):
    for number, factor in enumerate([1, 1, 1.1, 1.1]):
        day = {"started_utc": f"2026-11-0{number + 1}T12:00:00Z", "git_commit": f"{number}bcdef"}
        make_run(RESULTS, f"run{number}", {"fast": [factor * one for one in RATIOS], EVIL: [*RATIOS]}, **day)
    (RESULTS / "torn.csv").write_text("schema_version\n7")
    found = page(kbench, "--history")
    for text in ("Changes for the worse: 1, others: 0.", "SLOWER", "+10.0", "commit 1bcdef+ → 2bcdef+"):
        assert found.says(text), text
    assert found.says("torn.csv is truncated")
    assert found.says(EVIL)
    assert found.foreign == set()
    assert (kbench("report", "--history").out, Path("results/history.html").is_file()) == (
        "results/history.html\n",
        True,
    )
    assert page(kbench, RESULTS, "--history", "--slower", "20%").says("Nothing changed.")
    assert page(kbench, "run0", "--history").says("1 run of results/run0.csv"), "no repository, so no other version"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--history",), "no run in results"),
        (("none", "--history"), "no run named `none`"),
    ],
)
def test_what_has_no_history_says_so(refused, arguments, said):
    assert said in refused("report", *arguments)[1]
