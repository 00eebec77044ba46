"""Gives tasks to lanes: the tasks that are ready, in flight and done, shared by threads."""

import threading
from collections.abc import Callable, Mapping, Sequence

from kbench.engine.ladder import BATCH, next_batch
from kbench.engine.task import Task, TaskVerdict
from kbench.engine.unit import UnitResult

MOST_BATCHES = 8
"""Chosen. Units of one open problem in a row while another problem waits: as many as a judge serves."""
Write = Callable[[TaskVerdict], None]
"""Writes a finished unit to the disk: the task with its results so far."""


class Dispatcher:
    """The state that lanes and builders share. Any thread may call any method."""

    def __init__(self, *, write: Write, lanes: int, batch: int = BATCH):
        self._write, self._lanes, self._batch = write, lanes, batch
        self._results: dict[str, tuple[UnitResult, ...]] = {}
        """Results of the tasks without a verdict: those that are built, ready or judged now."""
        self._ready: list[Task] = []
        self._passed_over = 0
        self._is_open = True
        self._stopped = ""
        self._news = threading.Condition()

    def why_stopped(self) -> str:
        """Why nothing more is started; empty while the sweep continues."""
        with self._news:
            return self._stopped

    @property
    def left(self) -> int:
        """Tasks without a verdict."""
        with self._news:
            return len(self._results)

    def add(self, tasks: Sequence[Task], known: Mapping[str, tuple[UnitResult, ...]] | None = None) -> None:
        """Add tasks to build, with the results of units that are not judged again."""
        with self._news:
            self._results |= {task.key: tuple((known or {}).get(task.key, ())) for task in tasks}

    def finish(self) -> None:
        """Declare that no more tasks are added: lanes end when all are done."""
        with self._news:
            self._is_open = False
            self._news.notify_all()

    def stop(self, reason: str) -> None:
        """Start nothing more; units in flight end by themselves."""
        with self._news:
            self._stopped = self._stopped or reason
            self._news.notify_all()

    def built(self, tasks: Sequence[Task]) -> None:
        """Give tasks that need no further build to the lanes."""
        with self._news:
            self._ready += tasks
            self._news.notify_all()

    def take(self, problem: str) -> list[Task]:
        """Wait for tasks for a lane that has `problem` open; empty if no more will come."""
        with self._news:
            while True:
                if self._stopped:
                    return []
                known = problem if self._passed_over < MOST_BATCHES else ""
                batch = next_batch(self._ready, known, self._lanes, self._batch)
                if batch:
                    self._passed_over = 0 if batch[0] is self._ready[0] else self._passed_over + 1
                    taken = {task.key for task in batch}
                    self._ready = [task for task in self._ready if task.key not in taken]
                    order = [key for key in self._results if key in taken]
                    return sorted(batch, key=lambda task: order.index(task.key))
                if not self._is_open and not self._results:
                    return []
                self._news.wait()

    def give_back(self, tasks: Sequence[Task]) -> None:
        """Give those tasks of a lane that have no verdict to other lanes."""
        with self._news:
            self._ready = [*(task for task in tasks if task.key in self._results), *self._ready]
            self._news.notify_all()

    def results(self, task: Task) -> tuple[UnitResult, ...]:
        """Return the results of a task so far."""
        with self._news:
            return self._results[task.key]

    def record(self, task: Task, result: UnitResult) -> TaskVerdict:
        """Record the result of a unit, on the disk first; return what the task's units come to."""
        with self._news:
            verdict = TaskVerdict(task=task, results=(*self._results[task.key], result))
            self._write(verdict)
            if verdict.is_done:
                del self._results[task.key]
                self._news.notify_all()
            else:
                self._results[task.key] = verdict.results
            return verdict
