"""Tracebacks without the frames that are nobody's fault."""

from pathlib import Path

import pytest
import torch

from kbench.core import traces


def test_a_crash_names_the_solutions_lines_alone() -> None:
    log = f"""printed before
  File "{torch.__file__}", line 1 in a line that the solution printed itself
Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "/home/me/my.py", line 3 in helper
  File "/home/me/my.py", line 10 in forward
  File "{torch.__file__}", line 1750 in _call_impl
  File "{traces.__file__}", line 251 in do_call
  File "<frozen runpy>", line 88 in _run_code

Extension modules: numpy.linalg._umath_linalg, torch._C (total: 28)"""
    assert traces.without_machinery(log.splitlines()) == [*log.splitlines()[:7], ""]


def test_a_log_without_a_crash_stays_as_it_is() -> None:
    lines = ["one", f'  File "{traces.__file__}", line 1 in f', "Extension modules: mine"]
    assert traces.without_machinery(lines) == lines


def test_a_trace_has_no_frame_of_kbench(monkeypatch: pytest.MonkeyPatch) -> None:
    """A constructor with other arguments raises where kbench calls it, and that line tells nobody anything."""
    monkeypatch.setattr(traces, "OWN", Path(__file__).parent)
    with pytest.raises(TypeError) as raised:
        int("1", base=2, more=3)  # type: ignore[call-overload]
    (line,) = traces.trace_of(raised.value).splitlines()
    assert line.startswith("TypeError: ")


def test_torchs_frames_stay_where_there_are_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "OWN", Path(__file__).parent)
    with pytest.raises(NotImplementedError) as raised:
        torch.nn.Module()(1)
    first, *_ = traces.trace_of(raised.value).splitlines()
    assert "_forward_unimplemented" in first


LONG = [f"{number}" for number in range(100)]


@pytest.mark.parametrize(
    ("error_at", "shown"),
    [
        (None, LONG[90:]),
        (95, [*LONG[90:95], "a.cpp:7:1: error: no matching function", *LONG[96:]]),
        (50, ["a.cpp:7:1: error: no matching function", *LONG[51:54], "[41 lines left out]", *LONG[95:]]),
        (89, ["a.cpp:7:1: error: no matching function", *LONG[90:93], "[2 lines left out]", *LONG[95:]]),
    ],
)
def test_a_compilers_first_error_is_shown_however_much_follows_it(error_at, shown) -> None:
    lines = [*LONG]
    if error_at is not None:
        lines[error_at] = "a.cpp:7:1: error: no matching function"
    assert traces.most_telling(lines, 10) == shown
    assert traces.most_telling(lines[:1], 10) == lines[:1]
