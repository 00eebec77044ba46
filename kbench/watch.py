"""Judge a file at each save and report the change: a warm judge, few processes, no files."""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kbench.api.evaluation import EvaluationResult
from kbench.api.judge import Judge
from kbench.core.model import Passed
from kbench.core.stats import Interval, difference_interval, process_estimate

POLL_S = 0.2
"""Chosen. Seconds between checks of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedCase:
    """The result of one case at a save, and the change of its time since the last save that passed."""

    result: EvaluationResult
    change: Interval | None = None
    """Change of the time relative to the reference, as log ratio with its 95 % interval; None if not comparable."""

    @property
    def is_changed(self) -> bool:
        """Whether the change is larger than the noise between processes."""
        return self.change is not None and not self.change.low <= 0 <= self.change.high


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedSave:
    """The results of one save."""

    cases: tuple[WatchedCase, ...]
    elapsed_s: float


def watch(
    judge: Judge, problem: str, solution: Path, saves: Iterator[None], entry: str | None = None
) -> Generator[WatchedSave]:
    """Judge the solution at each save; yields the results."""
    last: dict[str, list[float]] = {}
    for _ in saves:
        began = time.monotonic()
        results = judge.evaluate(problem, solution, entry=entry)
        cases = []
        for result in results:
            estimates = estimates_of(result)
            cases.append(WatchedCase(result=result, change=change_between(last.get(result.case, []), estimates)))
            if estimates:
                last[result.case] = estimates
        yield WatchedSave(cases=tuple(cases), elapsed_s=time.monotonic() - began)


def estimates_of(result: EvaluationResult) -> list[float]:
    """Return the log of time over the reference's time of each process; empty for a failure."""
    outcome = result.outcome
    return [process_estimate(timing) for timing in outcome.timings] if isinstance(outcome, Passed) else []


def change_between(old: Sequence[float], new: Sequence[float]) -> Interval | None:
    """Return the interval of the change; None for fewer than two processes on either side."""
    return difference_interval(old, new) if min(len(old), len(new)) > 1 else None


def saves_of(path: Path, sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Yield at once, then whenever the file was saved and is unchanged for one more check.

    A file that is not there is waited for: editors replace it.
    """
    known: tuple[int, int, int] | None = None
    seen = _stamp(path)
    while True:
        if seen is not None and seen != known:
            known = seen
            yield
        sleep(POLL_S)
        before, seen = seen, _stamp(path)
        while seen != before:
            sleep(POLL_S)
            before, seen = seen, _stamp(path)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
