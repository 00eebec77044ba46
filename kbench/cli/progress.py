"""Progress of a run on stderr: on a terminal one live line per solution, and one that stays for each verdict."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from kbench.cli.output import Output, fitted
from kbench.core.events import Estimated, Event, Judged, LargeCases, Planned, StageFinished, StageStarted, Waiting
from kbench.core.forecast import Forecast
from kbench.report import units
from kbench.report.shown import render_waiting
from kbench.report.summary import summarise
from kbench.report.table import one_line

T = TypeVar("T")


class Live:
    """Keeps a line for each solution that is being judged: its stage, the estimate so far, the time left."""

    def __init__(self, output: Output):
        from rich.console import Console
        from rich.progress import Progress as RichProgress
        from rich.progress import SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
        from rich.table import Column

        self._output = output
        self._live = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False, table_column=Column()),  # wraps where it does not fit
            TimeElapsedColumn(),
            console=Console(stderr=True, highlight=False, markup=False),
            transient=True,
        )
        self._tasks: dict[tuple[str, str], TaskID] = {}
        self._estimates: dict[tuple[str, str], str] = {}
        self._holders: set[str] = set()
        self._at_most: int | None = None

    def __enter__(self) -> Callable[[Event], None]:
        self._live.start()
        return self.show

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, event: Event) -> None:
        """Begin, change or end a solution's line; what stays is printed above."""
        if isinstance(event, Planned):
            self._at_most = event.at_most
        if isinstance(event, StageStarted | StageFinished | Estimated | Judged):
            key = (event.solution, event.case)
            if isinstance(event, Estimated):
                self._estimates[key] = so_far(event)
            elif isinstance(event, StageStarted):
                process = self._process(event.process)
                parts = f"{event.stage:<6}", event.solution, event.case, process, self._estimates.get(key)
                if key not in self._tasks:
                    self._tasks[key] = self._live.add_task("", total=None)
                self._live.update(self._tasks[key], description="  ".join(filter(None, parts)))
            elif key in self._tasks:
                self._live.remove_task(self._tasks.pop(key))
        text = describe(event, self._output.verbosity)
        if text and is_new(event, self._holders):
            self._live.console.print(fitted(text, sys.stderr), soft_wrap=True)

    def _process(self, number: int | None) -> str:
        """Say which process of how many: `process 3 of at most 10`; empty where there is one only."""
        if number is None or self._at_most == 1:
            return ""
        is_one_of_them = self._at_most is not None and number < self._at_most
        return f"process {number + 1}" + (f" of at most {self._at_most}" if is_one_of_them else "")


def progress_for(output: Output) -> AbstractContextManager[Callable[[Event], None]]:
    """Return what shows the events of a run."""
    return shown(output, lambda: Live(output), lambda event: describe(event, output.verbosity))


@contextmanager
def shown(
    output: Output, live: Callable[[], AbstractContextManager[Callable[[T], None]]], line: Callable[[T], str]
) -> Iterator[Callable[[T], None]]:
    """Choose how events are shown: not when quiet, live on a terminal, by their lines elsewhere, as in a log."""
    if output.verbosity < 0:
        yield lambda _event: None
    elif sys.stderr.isatty():
        with live() as show:
            yield show
    else:
        holders: set[str] = set()
        yield lambda event: output.note(text) if (text := line(event)) and is_new(event, holders) else None


def is_new(event: object, holders: set[str]) -> bool:
    """Return whether an event tells something new: whoever holds the device is told once, and added to `holders`."""
    if not isinstance(event, Waiting):
        return True
    known = event.who in holders
    holders.add(event.who)
    return not known


def describe(event: Event, verbosity: int = 0) -> str:
    """Describe an event in one permanent line; empty for those that only matter to a live display."""
    if isinstance(event, Planned):
        cases = ", ".join(case.name for case in event.cases)
        plural = "process" if event.processes == 1 else "processes"
        processes = "" if event.processes == 0 else f" · {event.processes} {plural}"
        plural = "case" if len(event.cases) == 1 else "cases"
        judged = " · values and gradients" if event.backward else ""
        where = f"on {event.device}{processes}{judged}"
        return f"{event.problem} · {', '.join(event.solutions)} · {plural} {cases} · {where}"
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
    memory = "" if event.memory_bytes is None else f" (the device has {units.byte_size(event.memory_bytes)})"
    parts = [f"case {one.case} is large: {_size(one)} inputs, outputs and parameters{memory}" for one in event.cases]
    for place, one in enumerate(event.cases):
        parts[place] += "" if one.about_s is None else f", about {units.seconds(one.about_s)}"
    return "; ".join(parts if event.small is None else [*parts, f"`--case small`: {_size(event.small)}"])


def _size(one: Forecast) -> str:
    return "" if one.call_bytes is None else units.byte_size(one.call_bytes)


def so_far(event: Estimated) -> str:
    """Describe the estimate between two processes: `2.47× ± 0.3 %, at most 14 s more`."""
    share = event.half_width
    low, high = (None, None) if share is None else (event.speedup * (1 - share), event.speedup * (1 + share))
    speedup = units.speedup(event.speedup, low, high, alone=share is None)
    width = "" if share is None else f" ± {100 * share:.2g} %"
    left = "" if event.left_s is None else f", at most {event.left_s:.0f} s more"
    return f"{speedup}{width}{left}"
