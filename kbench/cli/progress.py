"""Progress on stderr: live lines on a terminal and what stays above them; in a log one line for each event."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kbench.cli.output import Output, fitted
from kbench.core.events import Estimated, Event, Judged, LargeCases, Planned, StageFinished, StageStarted, Waiting
from kbench.core.forecast import Forecast
from kbench.core.model import Status
from kbench.engine.task import Finished, SweepPlanned
from kbench.report import swept, units
from kbench.report.shown import MOST_NAMED
from kbench.report.summary import summarise
from kbench.report.table import one_line


@contextmanager
def progress_for(output: Output) -> Iterator[Callable[[Any], None]]:
    """Show events: not when quiet, live on a terminal, by their lines elsewhere; a holder of the device once."""
    progress, holders = Progress(output.verbosity), set[str]()

    def line(event: Any) -> str:
        text = progress.take(event)
        if isinstance(event, Waiting) and event.who in holders:
            return ""
        holders.update([event.who] if isinstance(event, Waiting) else ())
        return text

    def note(event: Any) -> None:
        if text := line(event):
            output.note(text)

    if output.verbosity < 0:
        yield lambda _event: None
    elif not sys.stderr.isatty():
        yield note
    else:
        with _terminal(progress, line) as show:
            yield show


@contextmanager
def _terminal(progress: "Progress", line: Callable[[Any], str]) -> Iterator[Callable[[Any], None]]:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
    from rich.table import Column

    tasks: dict[Any, TaskID] = {}
    with RichProgress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False, table_column=Column()),  # wraps where it does not fit
        TimeElapsedColumn(),
        console=Console(stderr=True, highlight=False, markup=False),
        transient=True,
    ) as display:

        def show(event: Any) -> None:
            text = line(event)
            if text and not (isinstance(event, Finished) and event.verdict.status is Status.PASSED):
                display.console.print(fitted(text, sys.stderr), soft_wrap=True)
            live = progress.live
            for key in tasks.keys() - live.keys():
                display.remove_task(tasks.pop(key))
            for key, description in live.items():
                if key not in tasks:
                    tasks[key] = display.add_task("", total=None)
                display.update(tasks[key], description=description)

        yield show


class Progress:
    """Progress of a run, by the stage of each solution, or of a sweep, by its verdicts and their rate."""

    def __init__(self, verbosity: int = 0) -> None:
        self._verbosity = verbosity
        self._stages: dict[tuple[str, str], str] = {}
        self._estimates: dict[tuple[str, str], str] = {}
        self._tasks = self._done = self._fresh = 0
        self._failures: Counter[str] = Counter()
        self._began = time.monotonic()

    def take(self, event: Any) -> str:
        """Count an event and describe it in one permanent line; empty for those that only matter to a live display."""
        match event:
            case Estimated():
                self._estimates[event.solution, event.case] = so_far(event)
            case StageStarted():
                key = event.solution, event.case
                process = f"process {event.process + 1}" if event.process else ""  # the first may be the only one
                parts = f"{event.stage:<6}", *key, process, self._estimates.get(key)
                self._stages[key] = "  ".join(filter(None, parts))
            case StageFinished() | Judged():
                self._stages.pop((event.solution, event.case), None)
            case SweepPlanned():
                self._tasks, self._began = event.tasks, time.monotonic()
            case Finished():
                self._done += 1
                self._fresh += not event.verdict.resumed
                if event.verdict.status is not Status.PASSED:
                    self._failures[event.verdict.status.value] += 1
        if self._tasks and not isinstance(event, Waiting):
            return swept.describe(event, self._done, self._tasks)
        return describe(event, self._verbosity)

    @property
    def live(self) -> dict[Any, str]:
        """A line with the state of the whole sweep, or one for each solution of a run that is being judged."""
        if not self._tasks:
            return self._stages
        elapsed_s = time.monotonic() - self._began
        parts = [f"{self._done}/{self._tasks}"]
        if self._fresh:
            left_s = elapsed_s / self._fresh * (self._tasks - self._done)
            parts += [f"{3600 * self._fresh / elapsed_s:.0f} an hour", f"{units.seconds(left_s)} left"]
        parts += [f"{count} {status}" for status, count in self._failures.most_common(3)]
        return {"": " · ".join(parts)}


def describe(event: Event, verbosity: int = 0) -> str:
    """Describe an event of a run; why a stage failed is in the verdict that follows."""
    match event:
        case Planned():
            count, names = len(event.cases), ", ".join(case.name for case in event.cases)
            cases = f"{count} cases" if count > MOST_NAMED else f"case{'s' * (count != 1)} {names}"
            processes = f" · {event.processes} process{'es' * (event.processes > 1)}" if event.processes else ""
            where = f"{cases} · on {event.device}{processes}"
            return f"{event.problem} · {', '.join(event.solutions)} · {where}"
        case LargeCases():
            return large_cases(event)
        case Waiting():
            return f"waiting for {event.device}, in use by {one_line(event.holder)}"
        case StageFinished() if verbosity > 0 or (event.ok and event.stage == "build"):
            process = "" if event.process is None else f"  process {event.process}"
            done = f"{'ok' if event.ok else 'FAILED'}  {units.seconds(event.elapsed_s)}  {one_line(event.detail)}"
            return f"  {event.stage:<6}  {event.solution}  {event.case}{process}  {done}".rstrip()
        case Judged():
            case = summarise(event)
            verdict = "passed" if case.passed else case.status.value.upper()
            speedup = "" if case.speedup is None else f"  {units.duration(case.time_ns)}  {case.shown_speedup}"
            return f"  {event.solution}  {event.case}  {verdict}{speedup}  {units.seconds(sum(event.stage_s.values()))}"
    return ""


def large_cases(event: LargeCases) -> str:
    """Describe large cases: `case default is large: 7.5 GB ..., about 41 s; --case small: 25 MB`."""

    def size(one: Forecast) -> str:
        return "" if one.call_bytes is None else units.byte_size(one.call_bytes)

    memory = "" if event.memory_bytes is None else f" (the device has {units.byte_size(event.memory_bytes)})"
    parts = [
        f"case {one.case} is large: {size(one)} inputs, outputs and parameters{memory}"
        + ("" if one.about_s is None else f", about {units.seconds(one.about_s)}")
        for one in event.cases
    ]
    return "; ".join(parts if event.small is None else [*parts, f"`--case small`: {size(event.small)}"])


def so_far(event: Estimated) -> str:
    """Describe the estimate between two processes: `2.47× ± 0.3 %`."""
    share = event.half_width
    low, high = (None, None) if share is None else (event.speedup * (1 - share), event.speedup * (1 + share))
    speedup = units.speedup(event.speedup, low, high, alone=share is None)
    return speedup if share is None else f"{speedup} ± {100 * share:.2g} %"
