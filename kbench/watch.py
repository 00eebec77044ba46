"""Judge a file at each save and report the change: a warm judge, few processes, no files."""

import contextlib
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kbench.api.evaluation import EvaluationResult
from kbench.build import manifest
from kbench.core.model import Passed
from kbench.core.stats import Interval, difference_interval, process_estimate

POLL_S = 0.2

Stamps = dict[Path, tuple[int, int, int]]
"""Time at which each file was last written, its size and its place on the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedCase:
    """The result of one case at a save, and the change of its time since the last save that passed."""

    result: EvaluationResult
    change: Interval | None = None
    """Change of the time relative to the reference, as log ratio with its 95 % interval; None if not comparable."""


def watch(
    judge: Callable[[], Sequence[EvaluationResult]], saves: Iterator[None]
) -> Generator[tuple[Sequence[WatchedCase], float]]:
    """Judge the solution at each save; yields the result of each case, and the seconds that they took."""
    last: dict[str, list[float]] = {}
    for _ in saves:
        began = time.monotonic()
        cases = []
        for result in judge():
            timings = result.outcome.timings if isinstance(result.outcome, Passed) else ()
            old, new = last.get(result.case, []), [process_estimate(timing) for timing in timings]
            change = difference_interval(old, new) if min(len(old), len(new)) > 1 else None
            cases.append(WatchedCase(result=result, change=change))
            last[result.case] = new or old
        yield cases, time.monotonic() - began


def saves_of(path: Path, sleep: Callable[[float], None] = time.sleep, *, variant: str = "") -> Iterator[None]:
    """Yield at once, then when a solution's files were saved and rest for one check; a missing file is waited for.

    Its files are those that it was seen to read when it was judged last; a file that is no longer read may stay.
    """

    def files() -> tuple[Path, ...]:
        return tuple(dict.fromkeys((path, *manifest.latest(path, variant))))

    followed, known = files(), Stamps()
    seen = _stamps(followed)
    while True:
        if seen and seen != known:
            yield
            followed = files()
            known = seen = {**_stamps(followed), **seen}
        sleep(POLL_S)
        before, seen = seen, _stamps(followed)
        while seen != before:
            sleep(POLL_S)
            before, seen = seen, _stamps(followed)


def _stamps(files: Sequence[Path]) -> Stamps:
    """Look at the files; empty where the first, the solution's own, is not there."""
    found: Stamps = {}
    for place in files:
        with contextlib.suppress(OSError):
            status = place.stat()
            found[place] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return found if files[0] in found else {}
