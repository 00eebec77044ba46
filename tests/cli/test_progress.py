"""What a run says while it goes on: which events leave a line, and what the live line shows."""

import io
import sys

import pytest
from fakes import failed, passed

from kbench.cli.output import Output
from kbench.cli.progress import Progress, describe, progress_for, so_far
from kbench.core.events import Estimated, LargeCases, Planned, StageFinished, StageStarted, Waiting
from kbench.core.forecast import Forecast
from kbench.core.model import Status

ESTIMATE = Estimated(solution="online", case="small", speedup=2.4687, half_width=0.003)

PLANNED = Planned(problem="square", solutions=("mine",), cases=(), device="cpu", processes=0)


def finished(stage: str, *, ok: bool = True, detail: str = "") -> StageFinished:
    return StageFinished(
        stage=stage, solution="online", case="small", process=None, ok=ok, elapsed_s=1.25, detail=detail
    )


OF_WHAT = "inputs, outputs and parameters"


@pytest.mark.parametrize(
    ("event", "verbosity", "line"),
    [
        (finished("build", detail="compiled"), 0, "  build   online  small  ok  1.2 s  compiled"),
        (finished("verify"), 0, ""),
        (finished("verify"), 1, "  verify  online  small  ok  1.2 s"),
        (finished("verify", ok=False), 0, ""),
        (finished("build", ok=False), 1, "  build   online  small  FAILED  1.2 s"),
        (Waiting(device="NVIDIA H200", holder="pid 7"), 0, "waiting for NVIDIA H200, in use by pid 7"),
        (ESTIMATE, 1, ""),
        (PLANNED, 0, "square · mine · cases  · on cpu"),
        (
            LargeCases(
                cases=(Forecast(device="cpu", case="full", call_bytes=7_516_000_000),),
                small=Forecast(device="cpu", case="small", call_bytes=25_000_000),
                memory_bytes=24_000_000_000,
            ),
            0,
            f"case full is large: 7.52 GB {OF_WHAT} (the device has 24.0 GB); `--case small`: 25.0 MB",
        ),
        (
            LargeCases(
                cases=(Forecast(device="cpu", case="full", call_bytes=7_516_000_000, about_s=61.0),),
                small=None,
                memory_bytes=None,
            ),
            0,
            f"case full is large: 7.52 GB {OF_WHAT}, about 61.0 s",
        ),
    ],
)
def test_which_events_leave_a_line(event, verbosity, line):
    assert describe(event, verbosity) == line


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "2.469× ± 0.3 %"),
        ({"half_width": 0.04}, "2.47× ± 4 %"),
        ({"half_width": None}, "2.5×"),
    ],
)
def test_the_estimate_has_the_digits_that_it_supports(changes, text):
    fields = {name: getattr(ESTIMATE, name) for name in Estimated.__slots__}
    assert so_far(Estimated(**(fields | changes))) == text


def test_a_solution_has_one_line_at_a_time_and_keeps_its_estimate():
    progress = Progress()
    progress.take(StageStarted(stage="verify", solution="online", case="small", process=0))
    progress.take(finished("verify"))
    progress.take(ESTIMATE)
    progress.take(StageStarted(stage="time", solution="online", case="small", process=3))
    assert [*progress.live.values()] == [f"time    online  small  process 4  {so_far(ESTIMATE)}"]
    progress.take(StageStarted(stage="build", solution="other", case="small"))
    assert len(progress.live) == 2
    progress.take(finished("time"))
    assert [*progress.live.values()] == ["build   other  small"]


@pytest.mark.parametrize("columns", ["40", "100"])
def test_a_terminal_keeps_what_stays_and_wraps_the_live_line(monkeypatch, columns):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", Terminal())
    with progress_for(Output()) as show:
        show(ESTIMATE)
        show(StageStarted(stage="time", solution="online", case="small", process=3))
        show(finished("build", detail="compiled"))
        show(StageStarted(stage="time", solution="online", case="small", process=3))
    written = sys.stderr.getvalue()
    assert "build online small ok 1.2 s compiled" in " ".join(written.split())
    assert "2.469× ± 0.3 %" in " ".join(written.split())


def test_a_verdict_stays():
    line = describe(passed())
    assert line.startswith("  online  default  passed  524 µs  1.166×  ")
    assert describe(failed(Status.WRONG_VALUE, "off by one")).startswith("  online  default  WRONG_VALUE  ")
