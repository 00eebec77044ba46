"""The build stage of a run: solutions are built side by side, as far as the machine has processors for it."""

import os
import queue
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from kbench.build.cache import CacheEntry
from kbench.core.model import Failed
from kbench.host.builder import Builder
from kbench.plugins.case_selection import Rehearsal
from kbench.plugins.registry import Entry

PROCESSORS_EACH = 2
"""Processors for each build: a compiler and its linker, or Python and what it compiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A solution to build, and for what."""

    entry: Entry
    cached: CacheEntry
    rehearsals: Mapping[str, Rehearsal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What became of a job."""

    job: Job
    failure: Failed | None
    elapsed_s: float


def at_once(processors: int) -> int:
    """Say how many solutions are built at a time."""
    return max(1, processors // PROCESSORS_EACH)


def build_all(jobs: Sequence[Job], builder: Builder) -> Iterator[Job | Built]:
    """Build; yield each job when it begins, and what became of it when it ends.

    Whoever stops listening stops the builds. Raises MachineError where the cache cannot be written.
    """
    told: queue.SimpleQueue[Job | Future[Built]] = queue.SimpleQueue()

    def build(job: Job) -> Built:
        told.put(job)
        began = time.monotonic()
        failure = builder.build(job.entry, job.cached, job.rehearsals)
        return Built(job=job, failure=failure, elapsed_s=time.monotonic() - began)

    with ThreadPoolExecutor(max_workers=at_once(len(os.sched_getaffinity(0)))) as threads:
        try:
            for job in jobs:
                threads.submit(build, job).add_done_callback(told.put)
            for _ in range(2 * len(jobs)):
                news = told.get()
                yield news.result() if isinstance(news, Future) else news
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            builder.stop()
