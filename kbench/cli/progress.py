"""Progress of a run on stderr: live lines on a terminal, one plain line per finished stage in a pipe."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, Self

from kbench.cli.output import Output
from kbench.core.events import Event, Planned, StageFinished, StageStarted, Waiting
from kbench.report import units
from kbench.report.table import one_line

_Key = tuple[str, str, str, int | None]


class Progress(Protocol):
    """Shows events as they come."""

    def show(self, event: Event) -> None:
        """Show one event."""


class Silent:
    """Shows nothing."""

    def show(self, event: Event) -> None:
        """Ignore the event."""


class Lines:
    """Writes one line per event worth reading later, as a log wants it."""

    def __init__(self, output: Output):
        self._output = output

    def show(self, event: Event) -> None:
        """Write the line of this event, if it has one."""
        text = describe(event)
        if text:
            self._output.note(text)


class Live:
    """Keeps a spinner line per running stage below the finished lines: the time so far, and its time before."""

    def __init__(self, output: Output):
        from rich.console import Console
        from rich.progress import Progress as RichProgress
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        self._output = output
        self._live = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[expected]}", markup=False),
            console=Console(stderr=True, highlight=False, markup=False),
            transient=True,
        )
        self._tasks: dict[_Key, object] = {}
        self._last_s: dict[tuple[str, str], float] = {}

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, event: Event) -> None:
        """Start or end the stage's line; other events become plain lines above."""
        if isinstance(event, StageStarted):
            last_s = self._last_s.get((event.stage, event.case))
            expected = "" if last_s is None else f"last time {units.seconds(last_s)}"
            task = self._live.add_task(_stage(event), total=None, expected=expected)
            self._tasks[_key(event)] = task
            return
        if isinstance(event, StageFinished):
            self._last_s[event.stage, event.case] = event.elapsed_s
            finished = self._tasks.pop(_key(event), None)
            if finished is not None:
                self._live.remove_task(finished)  # type: ignore[arg-type]  # rich's TaskID is an int
        text = describe(event)
        if text:
            self._live.console.print(text, soft_wrap=True)


@contextmanager
def progress_for(output: Output) -> Iterator[Progress]:
    """Choose how progress is shown: nothing when quiet, live on a terminal, lines elsewhere."""
    if output.verbosity < 0:
        yield Silent()
    elif sys.stderr.isatty():
        with Live(output) as live:
            yield live
    else:
        yield Lines(output)


def describe(event: Event) -> str:
    """Describe an event in one line; empty for those that only matter to a live display."""
    if isinstance(event, Planned):
        cases = ", ".join(case.name for case in event.cases)
        plural = "process" if event.processes == 1 else "processes"
        processes = "" if event.processes == 0 else f" · {event.processes} {plural}"
        plural = "case" if len(event.cases) == 1 else "cases"
        return f"{event.problem} · {', '.join(event.solutions)} · {plural} {cases} · on {event.device}{processes}"
    if isinstance(event, Waiting):
        return f"waiting for {event.device}, in use by {one_line(event.holder)}"
    if isinstance(event, StageFinished):
        verdict = "ok" if event.ok else "FAILED"
        took = units.seconds(event.elapsed_s)
        return f"  {_stage(event)}  {verdict}  {took}  {one_line(event.detail)}".rstrip()
    return ""


def _stage(event: StageStarted | StageFinished) -> str:
    process = "" if event.process is None else f"  process {event.process}"
    return f"{event.stage:<6}  {event.solution}  {event.case}{process}"


def _key(event: StageStarted | StageFinished) -> _Key:
    return (event.stage, event.solution, event.case, event.process)
