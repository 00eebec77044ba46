"""Progress of a sweep on stderr: one live line on a terminal, one plain line for each verdict in a pipe."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from kbench.cli.output import Output, fitted
from kbench.cli.progress import shown
from kbench.core.events import StageFinished, Waiting
from kbench.core.model import Status
from kbench.engine.task import DeviceState, Finished, Retried, SweepEvent, SweepPlanned
from kbench.report import swept, units
from kbench.report.shown import render_waiting


class Pace:
    """Counts verdicts and estimates the time left from the rate so far."""

    def __init__(self) -> None:
        self.tasks = self.done = 0
        self.failures: Counter[str] = Counter()
        self.devices: dict[str, str] = {}
        self.waiting: Waiting | None = None
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

    def log_line(self, event: SweepEvent) -> str:
        """Count an event and describe it in one line; empty for events that a log does not need."""
        self.take(event)
        return swept.describe(event, self.done, self.tasks)

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


@contextmanager
def _live(pace: Pace) -> Iterator[Callable[[SweepEvent], None]]:
    """Keep one line with the state of the whole sweep; failures, retries and devices in trouble stay above it."""
    from rich.console import Console
    from rich.status import Status as RichStatus
    from rich.text import Text

    console = Console(stderr=True, highlight=False, markup=False)

    def show(event: SweepEvent) -> None:
        text = pace.log_line(event)
        failed = isinstance(event, Finished) and not event.verdict.resumed and event.verdict.status is not Status.PASSED
        if failed or isinstance(event, SweepPlanned | Retried | DeviceState):
            console.print(fitted(text, sys.stderr), soft_wrap=True)
        status.update(Text(pace.line()))

    with RichStatus("", console=console) as status:
        yield show


def progress_for(output: Output) -> AbstractContextManager[Callable[[SweepEvent], None]]:
    """Return what shows the events of a sweep."""
    pace = Pace()
    return shown(output, lambda: _live(pace), pace.log_line)
