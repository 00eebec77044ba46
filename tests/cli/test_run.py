"""`kbench run` and `verify`: flags become options, events become a report and an exit code."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import fakes
import pytest
from records import make_samples

from kbench.core.diagnosis import Diagnosis
from kbench.core.errors import MachineError
from kbench.core.events import Saved
from kbench.core.levels import Level, shortfall
from kbench.core.model import Finding, FindingKind, Status
from kbench.engine import run as run_verb
from kbench.storage import details

MISMATCH = "output at [0, 3]: got 1, want 2; 17 of 4096 elements are wrong"


def test_a_pass_prints_the_table_on_stdout_and_progress_on_stderr(kbench, fake_run, golden):
    fake_run(*fakes.events(fakes.passed(), fakes.passed(case="ragged", time_ns_median=67_100)))
    done = kbench("run", "group_norm", "eager")
    assert done.code == 0
    golden("run_passed.txt", done.out.rstrip("\n"))
    golden("run_progress.txt", done.err.rstrip("\n"))


def test_a_failure_says_where_and_what_to_do(kbench, fake_run, golden):
    error = "kernel.cu(7): error: expected a `;`"
    log = "\n".join(
        [*("nvcc " + "-flag " * 40 for _ in range(9)), f"/build/{error}", "  \x1b[31mint x\x1b[0m", *("then",) * 30]
    )
    fake_run(
        *fakes.events(
            fakes.failed(Status.WRONG_VALUE, MISMATCH),
            fakes.failed(Status.BUILD_FAILED, error, solution="other", log=log),
        )
    )
    done = kbench("run", "group_norm", "eager")
    assert done.code == 1
    assert "\x1b" not in done.out
    golden("run_failed.txt", done.out.rstrip("\n"))


def test_a_diagnosis_comes_with_its_evidence_and_advice(kbench, fake_run, golden):
    why = Diagnosis(
        code="missing_bias", sentence="leaves out `bias`", evidence="the reference with `bias` = 0 leaves 0.00% of it"
    )
    judged = fakes.failed(Status.WRONG_VALUE, f"{why.sentence}; {MISMATCH}")
    fake_run(*fakes.events(replace(judged, outcome=replace(judged.outcome, diagnosis=why))))
    golden("run_diagnosed.txt", kbench("verify", "group_norm", "eager").out.rstrip("\n"))
    (result,) = kbench("verify", "group_norm", "eager", "--json").document["results"]
    assert result["diagnosis"] == {"code": why.code, "sentence": why.sentence, "evidence": why.evidence}


def test_findings_and_flags_come_with_their_code_and_advice(kbench, fake_run, golden):
    spent = Finding(code="imprecise", kind=FindingKind.TIMING, message="the budget ended; `--budget 40` would do")
    fragile = Finding(code="conditioning", kind=FindingKind.LEVEL, message="off by 3 at mean 30 std")
    fake_run(
        *fakes.events(fakes.passed(findings=[spent, fragile], lacks="conditioning", level="module", flags="throttled"))
    )
    done = kbench("run", "group_norm", "eager")
    assert done.code == 0
    golden("run_findings.txt", done.out.rstrip("\n"))
    assert (
        "level: online, case default: off by 3 at mean 30 std [conditioning]"
        in kbench("run", "group_norm", "eager", "-v").out
    )


def test_a_budget_that_ended_says_that_the_interval_stayed_wide(kbench, fake_run):
    fake_run(*fakes.events(fakes.passed(flags="imprecise")))
    assert "[imprecise]" in kbench("run", "group_norm", "eager").out
    spent = Finding(code="imprecise", kind=FindingKind.TIMING, message="the budget ended; `--budget 40` would do")
    fake_run(*fakes.events(fakes.passed(findings=[spent], flags="imprecise")))
    assert kbench("run", "group_norm", "eager").out.count("imprecise") == 1


def test_below_the_required_level_the_sentence_says_what_to_type(kbench, fake_run, golden):
    lacks = ("frozen_weights", "alignment")
    judged = fakes.failed(Status.BELOW_LEVEL, shortfall(lacks, Level.MODULE))
    findings = tuple(
        Finding(code=code, kind=FindingKind.LEVEL, message=MISMATCH, fatal=code == lacks[0]) for code in lacks
    )
    outcome = replace(judged.outcome, level=Level.TASK, lacks=lacks, findings=findings)
    fake_run(*fakes.events(replace(judged, outcome=outcome)))
    done = kbench("verify", "group_norm", "eager")
    assert done.code == 1
    golden("run_below_level.txt", done.out.rstrip("\n"))
    document = kbench("verify", "group_norm", "eager", "--json").document
    (result,) = document["results"]
    assert document["status"] == "below_level"
    assert (result["level"], result["lacks"], result["required_level"], result["accepted"]) == (
        "task",
        list(lacks),
        "module",
        [],
    )


def test_verbose_adds_processes_and_where_the_time_went(kbench, fake_run, golden, monkeypatch):
    monkeypatch.setattr("kbench.cli.run.seconds_since_process_start", lambda: 26.0)
    fake_run(*fakes.events(fakes.passed()))
    golden("run_verbose.txt", kbench("run", "group_norm", "eager", "-v").out.rstrip("\n"))


def test_what_a_solution_printed_is_shown_with_verbose_though_it_passed(kbench, fake_run):
    judged = fakes.passed()
    printed = replace(judged, outcome=replace(judged.outcome, log="compiled\n  for sm_90\n"))
    shown = {}
    for flags in ((), ("-v",)):
        fake_run(*fakes.events(printed))
        shown[flags] = kbench("run", "group_norm", "eager", *flags).out
    assert "printed by" not in shown[()]
    assert "printed by online, case default\n  | compiled\n  |   for sm_90\n" in shown[("-v",)]


def test_a_compiler_points_below_the_column_that_it_means(kbench, fake_run):
    error = "kernel.cu:12:9: error: 'foo' was not declared"
    log = f"{error}\n   12 |     int x = foo;\n      |\t      ^~~\n"
    fake_run(*fakes.events(fakes.failed(Status.BUILD_FAILED, error, log=log)))
    shown = "  |    12 |     int x = foo;\n  |       |       ^~~\n"
    assert shown in kbench("run", "group_norm", "eager").out


@pytest.mark.parametrize("target", [(), ("--format", "md")])
def test_the_constants_that_were_set_stand_in_the_report(kbench, fake_run, target):
    fake_run(*fakes.events(fakes.passed(overrides='{"rows": 7, "features": 37}')))
    assert "case default: rows=7, features=37" in kbench("run", "group_norm", "eager", *target).out


def test_quiet_keeps_the_verdicts(kbench, fake_run):
    fake_run(*fakes.events(fakes.passed(), fakes.failed(Status.CRASHED, "SIGSEGV", solution="b"), csv_path=None))
    done = kbench("run", "group_norm", "eager", "-q")
    assert done.err == ""
    assert done.out.splitlines() == [
        "passed  online  default  524 µs  1.166×  module; not: alignment, channels_last",
        "crashed  b  default  SIGSEGV",
    ]


def test_wall_time_stands_beside_device_time_where_the_host_binds(kbench, fake_run):
    bound = {"flags": "host_bound", "wall_ns": 638_000, "ref_wall_ns": 700_000, "level": "general", "lacks": ""}
    fake_run(*fakes.events(fakes.passed(**bound), fakes.passed(case="ragged")))
    text = kbench("run", "group_norm", "eager").out
    assert "524.1, wall 638  " in text
    assert text.count("wall") == 1, "the other case is not bound by its host"
    assert "warning" not in text
    assert "hint" not in text
    assert "passed  online  default  524 µs, wall 638 µs  1.166×" in kbench("run", "group_norm", "eager", "-q").out
    verbose = kbench("run", "group_norm", "eager", "-v").out.splitlines()
    heads = next(line for line in verbose if "verdict" in line)
    assert "wall µs" in heads
    assert "reference wall µs" in heads
    first = next(line for line in verbose if line.split()[:3] == ["online", "default", "passed"])
    assert first.split()[3:8] == ["general", "524.1", "638", "611.0", "700"]
    (case, _) = kbench("run", "group_norm", "eager", "--json").document["results"]
    assert (case["wall_ns"], case["ref_wall_ns"]) == (638_000, 700_000)
    assert case["flags"] == ["host_bound"]
    assert "| 524.1, wall 638 | 611.0 |" in kbench("run", "group_norm", "eager", "--format", "md").out


def test_wall_time_stands_beside_that_of_a_reference_which_is_timed_as_a_graph(kbench, fake_run):
    replayed = {"flags": "replayed", "wall_ns": 530_000, "ref_wall_ns": 2_700_000}
    fake_run(*fakes.events(fakes.passed(**replayed), fakes.passed(case="ragged")))
    text = kbench("run", "group_norm", "eager").out
    assert "611.0, wall 2,700" in text
    assert text.count(", wall ") == 1
    assert "kbench compare RUN OTHER --time wall" in text
    assert "611.0, wall" not in kbench("run", "group_norm", "eager", "-v").out, "it has a column of its own"


def test_cases_that_nobody_timed_have_no_mean(kbench, fake_run):
    untimed = {"time_ns_median": None, "ref_time_ns_median": None, "speedup": None}
    untimed |= {"speedup_low": None, "speedup_high": None, "wall_ns": None, "ref_wall_ns": None}
    fake_run(*fakes.events(fakes.passed(**untimed), fakes.passed(case="ragged", **untimed)))
    assert "geometric mean" not in kbench("verify", "group_norm", "eager").out


def test_a_weak_speed_up_has_no_digits_that_nobody_confirmed(kbench, fake_run):
    weak = {"attestation": "weak", "flags": "attestation_weak", "level": "general", "lacks": ""}
    fake_run(*fakes.events(fakes.passed(**weak), fakes.passed(case="ragged")))
    text = kbench("run", "group_norm", "eager").out
    lines = {line.split()[1]: line for line in text.splitlines() if line.startswith("  online")}
    assert "~1.2×      1.2 … 1.2" in lines["default"]
    assert lines["default"].split()[3:5] == ["general", "524"]
    assert "1.166×  1.161 … 1.171" in lines["ragged"]
    assert "~1.2×" in lines["geometric"], "a mean is as weak as its weakest case"
    assert kbench("run", "group_norm", "eager", "--json").document["results"][0]["speedup"] == pytest.approx(
        1.166, rel=1e-3
    )


@pytest.mark.parametrize(("device", "shown"), [("cuda", "1.17×"), ("cpu", "1.2×")])
def test_quick_prints_the_digits_that_one_process_confirms(kbench, fake_run, device, shown):
    """At 0.5 ms processes of a GPU differ by half a percent, those of a CPU by 6 %."""
    timing = replace(fakes.timing(), samples=tuple(make_samples(ratio=1 / 1.166, wobble=0.0005)))
    one = fakes.passed(timings=(timing,), device=device, speedup_low=None, speedup_high=None)
    one = replace(one, rows=(replace(one.rows[0], speedup=1.16605),))
    fake_run(*fakes.events(one))
    assert f"  {shown}" in kbench("run", "group_norm", "eager", "--quick").out
    assert f"{shown}  one process, no interval" in kbench("run", "group_norm", "eager", "--quick", "-q").out


def test_json_is_one_document_with_all_that_was_measured(kbench, fake_run):
    judged = fakes.passed(), fakes.failed(Status.WRONG_VALUE, MISMATCH, case="ragged")
    fake_run(*fakes.events(*judged))
    done = kbench("run", "group_norm", "eager", "--json")
    document = done.document
    assert done.code == 1
    assert document["exit_code"] == 1
    assert (document["schema"], document["command"], document["status"]) == (1, "run", "wrong_value")
    assert document["reason"] == f"online, case ragged: {MISMATCH}"
    assert document["speedup"] is None, "a solution that failed one case has no speed-up"
    assert [finding["code"] for finding in document["findings"]] == ["seed"]
    first, second = document["results"]
    assert first["speedup"] == pytest.approx(1.166, rel=1e-3)
    assert first["timings"][0]["samples"] == {}, "nine tenths of the document, for those who ask"
    asked = kbench("run", "group_norm", "eager", "--json", "-v").document["results"][0]
    assert asked["timings"][0]["samples"]["t_event_ns"] == [611_000, 524_000]
    assert len(first["rows"]) == 3
    assert second["time_ns"] is None
    assert document["csv"].endswith(".csv")


def test_flags_win_over_settings_and_settings_over_defaults(kbench, fake_run, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.kbench.run]\nprocesses = 5\nprecision = 0.02\n")
    calls = fake_run(*fakes.events(fakes.passed()))
    kbench("run", "group_norm", "eager", "--precision", "1%", "--case", "s*", "--set", "dim1=37", "--timeout", "2m")
    _, solutions, options = calls[0]
    assert [entry.name for entry in solutions] == ["eager"]
    assert (options.processes, options.max_processes, options.precision) == (5, 10, 0.01)
    assert (options.cases, options.overrides) == (("s*",), {"dim1": 37})
    assert (options.timeout_s, options.import_timeout_s) == (120.0, 60.0)
    assert options.results_dir == tmp_path / "results"
    assert not options.verify_only


def test_quick_is_one_process_and_verify_does_not_time(kbench, fake_run):
    calls = fake_run(*fakes.events(fakes.passed()))
    kbench("run", "group_norm", "eager", "--quick")
    kbench("verify", "group_norm", "eager", "--level", "general", "--accept", "alignment", "--no-save")
    assert (calls[0][2].processes, calls[0][2].max_processes) == (1, 1)
    assert calls[1][2].verify_only
    assert calls[0][2].level is Level.MODULE
    assert (calls[1][2].level, calls[1][2].accept) == (Level.GENERAL, ("alignment",))
    assert not calls[1][2].save


def test_without_names_every_file_that_fits_the_device_runs(kbench, fake_run):
    calls = fake_run(*fakes.events(fakes.passed()))
    kbench("run", "group_norm", "--device", "cpu")
    names = [entry.name for entry in calls[0][1]]
    assert "cpp_openmp" in names
    assert all("cpu" in entry.devices and entry.builtin is None for entry in calls[0][1])


def test_a_solution_that_fails_in_a_later_process_is_none_that_was_timed(kbench, fake_run):
    failed = fakes.failed(Status.TOTAL_TIMEOUT, "not judged in time")
    failed = replace(failed, rows=(*fakes.rows(1), replace(failed.rows[0], process=1)))
    fake_run(*fakes.events(failed))
    assert "process" not in kbench("run", "group_norm", "eager").out.partition("\n\n")[0]
    fake_run(*fakes.events(failed, fakes.passed(case="b")))
    assert " 3 processes ·" in kbench("run", "group_norm", "eager").out


@pytest.mark.parametrize(
    ("judged", "told"),
    [
        ([fakes.failed(Status.SKIPPED, "needs CUDA")], True),
        ([fakes.failed(Status.SKIPPED, "needs CUDA"), fakes.passed(case="b")], False),
    ],
)
def test_a_run_that_judged_nothing_says_that_it_is_not_the_latest(kbench, fake_run, judged, told):
    fake_run(*fakes.events(*judged))
    out = kbench("run", "group_norm", "eager").out
    assert "\nsaved " in out
    assert ("(no solution was judged, so `@latest` stays the run before)" in out) is told


@pytest.mark.parametrize(
    ("judged", "strict", "code"),
    [
        ([fakes.passed()], True, 0),
        ([fakes.passed(flags="unstable")], False, 0),
        ([fakes.passed(flags="unstable")], True, 4),
        ([fakes.failed(Status.NOT_VERIFIED, "no oracle")], False, 4),
        ([fakes.failed(Status.SKIPPED, "too large")], False, 5),
        ([fakes.passed(), fakes.failed(Status.SKIPPED, "too large", case="b")], False, 0),
        ([fakes.failed(Status.REFERENCE_FAILED, "get_inputs raised")], False, 2),
        ([fakes.failed(Status.HARNESS_ERROR, "judge died"), fakes.failed(Status.CRASHED, "", case="b")], False, 70),
        ([fakes.failed(Status.CRASHED, "SIGSEGV"), fakes.failed(Status.NOT_VERIFIED, "", case="b")], True, 1),
    ],
)
def test_exit_codes(kbench, fake_run, judged, strict, code):
    fake_run(*fakes.events(*judged))
    assert kbench("run", "group_norm", "eager", *(["--strict"] if strict else [])).code == code


def test_rows_stand_in_the_order_asked_for(kbench, fake_run):
    planned, *others, saved = fakes.events(
        fakes.failed(Status.CRASHED, "it died", solution="second"),
        fakes.passed("first"),
        fakes.failed(Status.CRASHED, "it died", solution="second", case="ragged"),
        fakes.passed("first", case="ragged"),
    )
    fake_run(replace(planned, solutions=("first", "second")), *others, saved)
    results = kbench("run", "group_norm", "eager", "--json").document["results"]
    assert [(one["case"], one["solution"]) for one in results] == [
        ("default", "first"),
        ("default", "second"),
        ("ragged", "first"),
        ("ragged", "second"),
    ]


def test_an_interrupted_run_names_the_file_with_what_had_finished(kbench, monkeypatch):
    def run(*_, **__):
        Path("results").mkdir()
        Path("results/half.csv").write_text("rows")
        Path("results/half.samples.csv").write_text("samples")
        yield Saved(csv_path="results/half.csv", environment=None)
        raise KeyboardInterrupt

    monkeypatch.setattr(run_verb, "run", run)
    done = kbench("run", "group_norm", "eager", "--device", "cpu")
    assert (done.code, done.out) == (130, "saved results/half.csv\n")
    assert "error: interrupted" in done.err


def test_an_error_after_the_first_result_keeps_it(kbench, fake_run):
    fake_run(*fakes.events(fakes.passed())[:-1], MachineError("no room on the disk", "free some"))
    done = kbench("run", "group_norm", "eager")
    assert done.code == 3
    assert "online" in done.out
    assert "error: no room on the disk\n\nhint: free some" in done.err


def test_a_defect_is_not_a_verdict(kbench, fake_run):
    fake_run(ZeroDivisionError("oops"))
    done = kbench("run", "group_norm", "eager")
    assert done.code == 70
    assert done.err.startswith("error: internal error: ZeroDivisionError: oops (conftest.py:")
    assert "Traceback" not in done.err
    assert "Traceback" in kbench("run", "group_norm", "eager", "-v").err


def test_csv_and_markdown(kbench, fake_run, golden):
    fake_run(*fakes.events(fakes.passed(), fakes.failed(Status.RAISED, "a | b <script>", solution="b")))
    golden("run.csv", kbench("run", "group_norm", "eager", "--format", "csv").out.rstrip("\n"))
    golden("run.md", kbench("run", "group_norm", "eager", "--format", "md").out.rstrip("\n"))


def test_what_rows_cannot_hold_is_kept_beside_them(kbench, fake_run, monkeypatch):
    odd = Finding(code="odd", kind=FindingKind.NOTE, message="an odd finding")
    judged = fakes.passed(findings=[odd])
    path = Path("results/kept.csv")
    path.parent.mkdir()
    path.write_text("rows")
    fake_run(*fakes.events(judged, csv_path=str(path)))
    monkeypatch.setattr("sys.argv", ["kbench", "run", "group_norm", "my kernel.py"])
    assert kbench("run", "group_norm", "eager").code == 0
    told = details.read(path, judged.rows[0].started_utc)
    assert told.command == "kbench run group_norm 'my kernel.py'"
    assert told.of("online", "default").findings == (odd,)
    assert told.of("online", "default").stage_s == judged.stage_s
    assert details.read(path, "another time") is None


AGE = "import time; time.sleep(0.3); from kbench.cli import run; print(run.seconds_since_process_start())"


def test_the_total_is_counted_from_the_start_of_the_process():
    """Python and what it imports are part of what a user waits for."""
    began = time.monotonic()
    told = subprocess.run([sys.executable, "-c", AGE], stdout=subprocess.PIPE, check=True, text=True).stdout
    assert 0.3 <= float(told) <= time.monotonic() - began + 0.02, "the kernel counts in hundredths"
