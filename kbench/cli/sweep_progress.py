"""Progress of a sweep on stderr: one live line on a terminal, one plain line for each verdict in a pipe."""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, Self

from kbench.cli.output import Output
from kbench.cli.progress import is_new
from kbench.core.events import StageFinished, Waiting
from kbench.core.model import Status
from kbench.report import swept, units
from kbench.report.waiting import render_waiting
from kbench.sweep.task import DeviceState, Finished, Retried, SweepEvent, SweepPlanned


class SweepProgress(Protocol):
    """Shows events as they come."""

    def show(self, event: SweepEvent) -> None:
        """Show one event."""


class Pace:
    """Counts verdicts and estimates the time left from the rate so far."""

    def __init__(self) -> None:
        self.tasks = self.done = 0
        self.failures: Counter[str] = Counter()
        self.devices: dict[str, str] = {}
        self.waiting: Waiting | None = None
        """Who uses the device that a lane waits for."""
        self._fresh = 0
        self._began = time.monotonic()

    def take(self, event: SweepEvent) -> None:
        """Count an event."""
        if isinstance(event, SweepPlanned):
            self.tasks = event.tasks
            self._began = time.monotonic()
        elif isinstance(event, Waiting):
            self.waiting = event
        elif isinstance(event, StageFinished) and event.stage == "wait":
            self.waiting = None
        elif isinstance(event, Finished):
            self.done += 1
            self._fresh += not event.verdict.resumed
            if event.verdict.status is not Status.PASSED:
                self.failures[event.verdict.status.value] += 1
        elif isinstance(event, DeviceState):
            self.devices[event.device] = event.state

    def line(self) -> str:
        """Describe the state in one line."""
        elapsed_s = time.monotonic() - self._began
        parts = [f"{self.done}/{self.tasks}"]
        if self._fresh:
            left_s = elapsed_s / self._fresh * (self.tasks - self.done)
            parts += [f"{3600 * self._fresh / elapsed_s:.0f} an hour", f"{units.seconds(left_s)} left"]
        parts += [f"{count} {status}" for status, count in self.failures.most_common(3)]
        parts += [f"{device} {state}" for device, state in self.devices.items() if state != "back in service"]
        parts += [render_waiting(self.waiting)] if self.waiting is not None else []
        return " · ".join(parts)


class SweepSilent:
    """Shows nothing."""

    def show(self, event: SweepEvent) -> None:
        """Ignore the event."""


class SweepLines:
    """Writes a line for each verdict, and for whoever is waited for once, for logs."""

    def __init__(self, output: Output):
        self._output = output
        self._pace = Pace()
        self._holders: set[str] = set()

    def show(self, event: SweepEvent) -> None:
        """Write the line of this event, if it has one."""
        self._pace.take(event)
        text = swept.describe(event, self._pace.done, self._pace.tasks)
        if text and is_new(event, self._holders):
            self._output.note(text)


class SweepLive:
    """Keeps one line with the state of the whole sweep; failures stay above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.status import Status as RichStatus

        self._console = Console(stderr=True, highlight=False, markup=False)
        self._status = RichStatus("", console=self._console)
        self._pace = Pace()

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def show(self, event: SweepEvent) -> None:
        """Count the event; failures, retries and devices in trouble become lines of their own."""
        from rich.text import Text

        self._pace.take(event)
        failed = isinstance(event, Finished) and not event.verdict.resumed and event.verdict.status is not Status.PASSED
        if failed or isinstance(event, SweepPlanned | Retried | DeviceState):
            self._console.print(swept.describe(event, self._pace.done, self._pace.tasks), soft_wrap=True)
        self._status.update(Text(self._pace.line()))


@contextmanager
def progress_for(output: Output) -> Iterator[SweepProgress]:
    """Choose how progress is shown: nothing when quiet, live on a terminal, lines elsewhere."""
    if output.verbosity < 0:
        yield SweepSilent()
    elif sys.stderr.isatty():
        with SweepLive() as live:
            yield live
    else:
        yield SweepLines(output)
