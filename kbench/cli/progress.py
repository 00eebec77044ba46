"""Progress on stderr: live lines on a terminal and what stays above them; in a log one line for each event."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from kbench.cli.output import Output, fitted
from kbench.core.events import Estimated, Event, Judged, LargeCases, Planned, StageFinished, StageStarted, Waiting
from kbench.core.forecast import Forecast
from kbench.core.model import Status
from kbench.engine.task import DeviceState, Finished, Retried, SweepEvent, SweepPlanned
from kbench.report import swept, units
from kbench.report.shown import render_waiting
from kbench.report.summary import summarise
from kbench.report.table import one_line


def progress_for(output: Output) -> AbstractContextManager[Callable[[Any], None]]:
    """Return a context manager that shows the events of a run."""
    return shown(output, RunProgress(output.verbosity))


@contextmanager
def shown(output: Output, progress: "RunProgress | SweepProgress") -> Iterator[Callable[[Any], None]]:
    """Show events: not when quiet, live on a terminal, by their lines elsewhere; a holder of the device once."""
    holders: set[str] = set()

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
def _terminal(progress: "RunProgress | SweepProgress", line: Callable[[Any], str]) -> Iterator[Callable[[Any], None]]:
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
            if text and progress.stays(event):
                display.console.print(fitted(text, sys.stderr), soft_wrap=True)
            live = progress.live
            for key in tasks.keys() - live.keys():
                display.remove_task(tasks.pop(key))
            for key, description in live.items():
                if key not in tasks:
                    tasks[key] = display.add_task("", total=None)
                display.update(tasks[key], description=description)

        yield show


class RunProgress:
    """Progress of a run: a line for each solution that is being judged, with its stage and the estimate so far."""

    def __init__(self, verbosity: int = 0) -> None:
        self.live: dict[Any, str] = {}
        self._verbosity = verbosity
        self._estimates: dict[tuple[str, str], str] = {}
        self._at_most: int | None = None

    def take(self, event: Event) -> str:
        """Count an event and describe it in one line of a log."""
        if isinstance(event, Planned):
            self._at_most = event.at_most
        elif isinstance(event, Estimated):
            self._estimates[event.solution, event.case] = so_far(event)
        elif isinstance(event, StageStarted):
            key = event.solution, event.case
            parts = f"{event.stage:<6}", *key, self._process(event.process), self._estimates.get(key)
            self.live[key] = "  ".join(filter(None, parts))
        elif isinstance(event, StageFinished | Judged):
            self.live.pop((event.solution, event.case), None)
        return describe(event, self._verbosity)

    def stays(self, _: Event) -> bool:
        """Keep every line."""
        return True

    def _process(self, number: int | None) -> str:
        """Say which process of how many: `process 3 of at most 10`; empty where there is one only."""
        if number is None or self._at_most == 1:
            return ""
        is_one_of_them = self._at_most is not None and number < self._at_most
        return f"process {number + 1}" + (f" of at most {self._at_most}" if is_one_of_them else "")


class SweepProgress:
    """Progress of a sweep: verdicts so far, and the time left by their rate."""

    def __init__(self) -> None:
        self.tasks = self.done = 0
        self.failures: Counter[str] = Counter()
        self._fresh = 0
        self._began = time.monotonic()

    def take(self, event: SweepEvent) -> str:
        """Count an event and describe it in one line of a log."""
        if isinstance(event, SweepPlanned):
            self.tasks = event.tasks
            self._began = time.monotonic()
        elif isinstance(event, Finished):
            self.done += 1
            self._fresh += not event.verdict.resumed
            if event.verdict.status is not Status.PASSED:
                self.failures[event.verdict.status.value] += 1
        return swept.describe(event, self.done, self.tasks)

    def stays(self, event: SweepEvent) -> bool:
        """Keep failures, retries, and devices in trouble or in use by others."""
        if isinstance(event, Finished):
            return not event.verdict.resumed and event.verdict.status is not Status.PASSED
        return isinstance(event, SweepPlanned | Retried | DeviceState | Waiting)

    @property
    def live(self) -> dict[Any, str]:
        """One line with the state of the whole sweep."""
        elapsed_s = time.monotonic() - self._began
        parts = [f"{self.done}/{self.tasks}"]
        if self._fresh:
            left_s = elapsed_s / self._fresh * (self.tasks - self.done)
            parts += [f"{3600 * self._fresh / elapsed_s:.0f} an hour", f"{units.seconds(left_s)} left"]
        parts += [f"{count} {status}" for status, count in self.failures.most_common(3)]
        return {"": " · ".join(parts)}


def describe(event: Event, verbosity: int = 0) -> str:
    """Describe an event in one permanent line; empty for those that only matter to a live display."""
    if isinstance(event, Planned):
        cases = ", ".join(case.name for case in event.cases)
        processes = f" · {event.processes} process{'es' * (event.processes > 1)}" if event.processes else ""
        where = f"case{'s' * (len(event.cases) != 1)} {cases} · on {event.device}{processes}"
        return f"{event.problem} · {', '.join(event.solutions)} · {where}"
    if isinstance(event, LargeCases):
        return large_cases(event)
    if isinstance(event, Waiting):
        return render_waiting(event)
    if isinstance(event, StageFinished) and (verbosity > 0 or not event.ok or event.stage == "build"):
        process = "" if event.process is None else f"  process {event.process}"
        done = f"{'ok' if event.ok else 'FAILED'}  {units.seconds(event.elapsed_s)}  {one_line(event.detail)}"
        return f"  {event.stage:<6}  {event.solution}  {event.case}{process}  {done}".rstrip()
    if isinstance(event, Judged):
        case = summarise(event)
        verdict = "passed" if case.passed else case.status.value.upper()
        speedup = "" if case.speedup is None else f"  {case.shown_speedup}"
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
    """Describe the estimate between two processes: `2.47× ± 0.3 %, at most 14 s more`."""
    share = event.half_width
    low, high = (None, None) if share is None else (event.speedup * (1 - share), event.speedup * (1 + share))
    speedup = units.speedup(event.speedup, low, high, alone=share is None)
    width = "" if share is None else f" ± {100 * share:.2g} %"
    left = "" if event.left_s is None else f", at most {event.left_s:.0f} s more"
    return f"{speedup}{width}{left}"
