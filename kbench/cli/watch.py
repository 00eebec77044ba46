"""`kbench watch`: verify and quickly time a file at each save."""

import functools
import math
import os
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.catalog import registry
from kbench.cli import completion, shared_flags
from kbench.cli.options import SettingsFlags, argument, command
from kbench.cli.output import Output
from kbench.core.errors import ExitCode, UsageError
from kbench.core.events import Event, StageEvent
from kbench.report import units
from kbench.report.table import one_line

if TYPE_CHECKING:
    from kbench.api.evaluation import EvaluationResult
    from kbench.core.stats import Interval
    from kbench.watch import WatchedCase

PROCESSES = 3
"""The interval of two processes is too wide to use: t is 12.7."""
BUDGET_S = 6.0
"""Chosen: short enough to wait for."""


class _WatchFlags(SettingsFlags):
    problem: str = shared_flags.problem()
    file: Path = argument("FILE", "Solution to watch: a file, or one of its functions")
    case: list[str] | None = shared_flags.cases(autocompletion=completion.cases)
    device: str | None = shared_flags.device()
    verify_only: bool = shared_flags.verify_only()
    budget: float | None = shared_flags.seconds("--budget SECONDS", "Time to measure (default 6s)")


class Shown:
    """Shows the stages of a judge while it judges a save."""

    def __init__(self, output: Output):
        self._output = output
        self._show: Callable[[Event], None] | None = None

    def during(self, judge: "Callable[[], Sequence[EvaluationResult]]") -> "Sequence[EvaluationResult]":
        """Judge a save; one result for each case."""
        from kbench.cli.progress import progress_for

        with progress_for(self._output) as self._show:
            return judge()

    def show(self, event: StageEvent) -> None:
        """Show a stage."""
        if self._show is not None:
            self._show(event)


@command(_WatchFlags)
def main(flags: _WatchFlags) -> int:
    """Verify and quickly time a file at each save."""
    from kbench.api.judge import Judge  # imports numpy, which completion does not need
    from kbench.watch import saves_of, watch

    output, settings = Output(), flags.settings()
    problem = registry.find_problem(flags.problem, settings)
    known = registry.solutions(problem, settings)
    named = [one.path for one in known if one.builtin is None and one.name == str(flags.file)]
    if named and not flags.file.exists():
        message = f"`{flags.file}` is a name, and a file is watched"
        raise UsageError(message, f"its file is `{os.path.relpath(named[0])}`")
    chosen = registry.find_solution(problem, flags.file, settings)  # refuses what is no solution
    is_file = flags.file.suffix == ".py"  # not `file.py:function`, nor `package.module:function`
    solution, path = (flags.file, flags.file) if is_file else (str(flags.file), chosen.path)
    options: dict[str, Any] = {"device": flags.device or settings.run.device, "verify_only": flags.verify_only}
    options |= {"processes": PROCESSES, "max_processes": PROCESSES, "budget_s": flags.budget or BUDGET_S}
    options |= {"cases": tuple(flags.case)} if flags.case else {}
    shown = Shown(output)
    with (
        suppress(KeyboardInterrupt),
        Judge(lanes=1, config=flags.config, on_stage=shown.show, **options) as judge,
    ):
        once = functools.partial(judge.evaluate, str(problem.path), solution)
        output.note(f"watching {flags.file} and the files that it imports; Ctrl-C ends it")
        with closing(watch(lambda: shown.during(once), saves_of(path, variant=chosen.variant))) as judged:
            for number, (cases, elapsed_s) in enumerate(judged, start=1):
                output.text(render_save(number, cases, elapsed_s))
    return ExitCode.OK


def render_save(number: int, cases: "Sequence[WatchedCase]", elapsed_s: float) -> str:
    """Write one line for each case: `2  small  passed  1.24× (1.22 … 1.26)  4.1 % faster (3.0 to 5.1)  3.2 s`."""
    from kbench.report.summary import summarise

    lines = []
    for case in cases:
        result, summary = case.result, summarise(case.result)
        if summary.passed:
            parts = ["passed", summary.level.value if summary.level is not None else ""]
            parts += [summary.shown_speedup, summary.shown_interval] if summary.speedup is not None else []
            parts += [_change(case.change)] if case.change is not None else []
        else:
            parts = [result.status.value.upper(), one_line(summary.reason)]
        shown = [part for part in parts if part not in {"", units.ABSENT}]
        lines.append("  ".join([str(number), result.case, *shown, units.seconds(elapsed_s)]))
    return "\n".join(lines)


def _change(change: "Interval") -> str:
    """Write a change of the time: `+4.1 % (+3.0 … +5.1 %)`, or `no change (within 1.2 %)`."""
    low, centre, high = (math.expm1(end) for end in (change.low, change.centre, change.high))
    if low <= 0 <= high:  # no more than the noise between processes
        return f"no change (within {100 * max(-low, high):.2g} %)"
    half = (high - low) / 2
    least, middle, most = (units.change(end, half) for end in (low, centre, high))
    return f"time {middle} ({least.removesuffix(' %')} … {most})"
