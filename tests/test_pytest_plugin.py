"""The pytest plugin: a marked test fails with its verdict, and a session without marked tests pays nothing."""

import contextlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import tiny_corpus
from records import make_row, make_samples

import kbench
from kbench.core.errors import MachineError, NoGpuError
from kbench.core.events import Judged
from kbench.core.levels import Level
from kbench.core.model import Correctness, Failed, Passed, Status, Timing
from kbench.host import nursery_process
from kbench.report import run as report  # brings numpy, which each session of a test would import anew
from kbench.report.summary import summarise

ROOT = Path(__file__).parent.parent
PLUGIN = ("-p", "kbench.pytest_plugin", "-p", "no:cacheprovider", "--import-mode=importlib")
RIGHT = Correctness(max_abs_err=0.0, max_rel_err=0.0, contract_ratio=0.0)


def passed(low: float = 1.49, high: float = 1.51, case: str = "small") -> Judged:
    """A solution with the interval of speed-up that is asked for, over two processes."""
    timings = tuple(Timing(samples=tuple(make_samples(process=p)), timer="events", l2="flushed") for p in (0, 1))
    rows = tuple(
        make_row(process=p, case=case, speedup=(low * high) ** 0.5, speedup_low=low, speedup_high=high) for p in (0, 1)
    )
    outcome = Passed(correctness=RIGHT, timings=timings, level=Level.GENERAL)
    return Judged(solution="fast", case=case, outcome=outcome, rows=rows, stage_s={})


def untimed() -> Judged:
    outcome = Passed(correctness=RIGHT, timings=(), level=Level.GENERAL)
    return Judged(solution="fast", case="small", outcome=outcome, rows=(make_row(timed=False),), stage_s={})


def wrong() -> Judged:
    outcome = Failed(status=Status.WRONG_VALUE, reason="output[3]: got 1, want 2")
    rows = (make_row(timed=False, status="wrong_value"),)
    return Judged(solution="fast", case="small", outcome=outcome, rows=rows, stage_s={})


def skipped() -> Judged:
    outcome = Failed(status=Status.SKIPPED, reason="runs on cuda, not on cpu")
    rows = (make_row(timed=False, status="skipped"),)
    return Judged(solution="fast", case="small", outcome=outcome, rows=rows, stage_s={})


@pytest.fixture(autouse=True)
def _no_other_plugins(monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture
def judging(pytester, monkeypatch):
    """Run one marked test in a session of its own, in which `kbench.evaluate` gives these records."""

    def run(*judged: Judged | Exception, marker: str = "max_slowdown=0.02", body: str = "assert kbench_case.passed"):
        calls = []

        def evaluate(problem, solution, **options):
            calls.append((problem, solution, options))
            for one in judged:
                if isinstance(one, Exception):
                    raise one
            return judged

        monkeypatch.setattr(kbench, "evaluate", evaluate)
        monkeypatch.setattr(nursery_process, "kept", contextlib.nullcontext)
        name = "kbench_case" if "kbench_case" in body else ""
        pytester.makepyfile(f"""
            import pytest

            @pytest.mark.kbench("problem.py", "fast", {marker})
            def test_it({name}):
                {body}
        """)
        return pytester.runpytest_inprocess(*PLUGIN), calls

    return run


def test_a_right_and_fast_solution_passes(judging, pytester):
    """The path is relative to the test's file, whether the problem is there or not."""
    result, calls = judging(passed(), body="assert kbench_case.level == 'general' and kbench_case.speedup > 1.4")
    result.assert_outcomes(passed=1)
    assert calls == [(pytester.path / "problem.py", "fast", {"verify_only": False})]


def test_a_wrong_solution_fails_with_its_reason_and_its_hint(judging):
    result, _ = judging(wrong())
    result.assert_outcomes(errors=1)
    told = report.failure(summarise(wrong()), f"{wrong().solution}, case small")
    assert told.startswith("wrong_value: fast, case small: output[3]: got 1, want 2\nhint: ")
    assert told in result.stdout.str()


@pytest.mark.parametrize(
    ("low", "high", "slowdown", "outcome"),
    [
        (0.97, 0.99, "0.02", {"passed": 1, "warnings": 1}),  # spans 1/1.02 = 0.980
        (0.90, 0.97, "0.02", {"errors": 1}),
        (0.99, 1.01, "0.02", {"passed": 1}),
        (1.49, 1.51, "-0.5", {"errors": 1}),  # half the time is asked for
        (2.10, 2.20, "-0.5", {"passed": 1}),
    ],
)
def test_only_a_slow_down_that_is_shown_fails(judging, low, high, slowdown, outcome):
    result, _ = judging(passed(low, high), marker=f"max_slowdown={slowdown}")
    result.assert_outcomes(**outcome)


NO_SHARE = "`max_slowdown` is *; it is a share above -1, such as 0.02 for 2 %"
FORM = "the marker names one problem and one solution: @pytest.mark.kbench(*"


@pytest.mark.parametrize(
    ("marker", "line"),
    [
        ("max_slowdwn=0.02", "there is no option `max_slowdwn`; did you mean `max_slowdown`?"),
        *((f"max_slowdown={given}", NO_SHARE) for given in ("'a lot'", "-1", "True", "float('inf')")),
        *((given, FORM) for given in ("'third'", "problem='again'")),
    ],
)
def test_a_marker_that_says_something_else_is_refused_before_anything_is_judged(judging, marker, line):
    result, calls = judging(passed(), marker=marker)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([line])
    assert calls == []


def test_an_error_is_shown_without_a_chain(judging):
    result, _ = judging(MachineError("no room", "close others"))
    assert "During handling" not in result.stdout.str()
    result.stdout.fnmatch_lines(["no room", "hint: close others"])


def test_without_a_bound_nothing_is_timed(judging):
    result, calls = judging(untimed(), marker="cases=('small',)")
    result.assert_outcomes(passed=1)
    assert calls[0][2] == {"verify_only": True, "cases": ("small",)}


def test_a_marked_test_that_forgets_the_fixture_is_judged_all_the_same(judging):
    result, calls = judging(wrong(), body="pass")
    result.assert_outcomes(errors=1)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("judged", "line"),
    [
        ((MachineError("no compiler", "install g++"),), "no compiler"),
        ((passed(), passed(case="large")), "2 cases were judged (small, large)*"),
        ((untimed(),), "*was not timed*"),
    ],
)
def test_what_was_not_judged_and_timed_once_is_not_green(judging, judged, line):
    result, _ = judging(*judged)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([line])


@pytest.mark.parametrize(
    ("judged", "why"),
    [
        (skipped(), "fast, case small: runs on cuda, not on cpu"),
        (NoGpuError("no CUDA device found", "use `--device cpu`"), "no CUDA device found"),
    ],
)
@pytest.mark.parametrize("body", ["assert kbench_case.passed", "pass"])
def test_a_solution_that_needs_a_gpu_is_skipped_where_there_is_none(judging, monkeypatch, judged, why, body):
    monkeypatch.setenv("PYTEST_ADDOPTS", "-rs")
    result, _ = judging(judged, body=body)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines([f"SKIPPED *: {why}"])


def test_the_fixture_needs_its_marker(pytester):
    pytester.makepyfile("def test_it(kbench_case): pass")
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["`kbench_case` needs a marker: @pytest.mark.kbench(*"])


def test_a_session_without_marked_tests_imports_nothing_slow():
    code = (
        "import sys, pytest; before = set(sys.modules); import kbench.pytest_plugin;"
        "print(sorted({'torch', 'numpy', 'pandas', 'typer', 'rich', 'pydantic'} & (set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"


def test_the_plugin_is_an_entry_point():
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert entry == {"kbench": "kbench.pytest_plugin"}


@pytest.mark.slow
def test_a_real_solution_is_verified(pytester):
    pytester.makepyfile(problem=tiny_corpus.problem())
    pytester.makepyfile("""
        import pytest

        @pytest.mark.kbench("problem.py", "eager", device="cpu")
        def test_eager(kbench_case):
            assert kbench_case.level == "general"
    """)
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=1)
