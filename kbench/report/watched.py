"""Lines of `kbench watch`: the result of a save, and the change since the last one."""

import math

from kbench.core.model import Failed
from kbench.report import units
from kbench.report.summary import summarise
from kbench.report.table import one_line
from kbench.watch import WatchedCase, WatchedSave


def render_save(save: WatchedSave, number: int) -> str:
    """Write one line for each case: `2  small  passed  1.24× (1.22 … 1.26)  4.1 % faster (3.0 to 5.1)  3.2 s`."""
    return "\n".join(f"{number}  {_case(case)}  {units.seconds(save.elapsed_s)}" for case in save.cases)


def _case(case: WatchedCase) -> str:
    result, summary = case.result, summarise(case.result)
    if isinstance(result.outcome, Failed):
        return f"{result.case}  {result.status.value.upper()}  {one_line(result.outcome.reason)}"
    parts = [result.case, "passed", *([str(summary.level.value)] if summary.level is not None else [])]
    parts += [summary.shown_speedup, summary.shown_interval] if summary.speedup is not None else []
    parts += [render_change(case)] if case.change is not None else []
    return "  ".join(part for part in parts if part != units.ABSENT)


def render_change(case: WatchedCase) -> str:
    """Write the change of the time: `4.1 % faster (3.0 to 5.1)`, or `no change (within 1.2 %)`."""
    assert case.change is not None, "there is something to compare with"
    low, centre, high = (100 * math.expm1(end) for end in (case.change.low, case.change.centre, case.change.high))
    if not case.is_changed:
        return f"no change (within {_two_digits(max(-low, high))} %)"
    word = "slower" if centre > 0 else "faster"
    least, most = sorted(abs(end) for end in (low, high))
    return f"{_two_digits(abs(centre))} % {word} ({_two_digits(least)} to {_two_digits(most)})"


def _two_digits(percent: float) -> str:
    return f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"


def render_end(saves: int, passed: int) -> str:
    """Write the last line."""
    return f"watched {saves} {'save' if saves == 1 else 'saves'}, {passed} passed"
