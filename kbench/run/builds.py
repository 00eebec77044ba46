"""The build stage of a run: solutions are built in parallel, as far as the processors allow."""

import os
import queue
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kbench.build import cache, sources
from kbench.build.cache import CacheEntry
from kbench.core.model import Case, Failed
from kbench.host.builder import Builder
from kbench.host.context import RunContext
from kbench.plugins import case_selection
from kbench.plugins.case_selection import Rehearsal
from kbench.plugins.registry import Entry
from kbench.storage.settings import cache_dir

PROCESSORS_EACH = 2
"""Processors for each build: a compiler and its linker, or Python and what it compiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A solution to build, and the calls to rehearse."""

    entry: Entry
    cached: CacheEntry
    rehearsals: Mapping[str, Rehearsal]

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to build."""
        if not sources.compiles(self.entry.path, self.entry.builtin):
            return True
        return self.cached.is_built and not self.rehearsals


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The result of a job."""

    job: Job
    failure: Failed | None
    elapsed_s: float


def job_of(
    problem: Entry, entry: Entry, cases: Sequence[Case], derived: Iterable[Mapping[str, Any]], context: RunContext
) -> Job:
    """Return what the cache lacks of a solution for these cases; `derived` are shapes beside the problem's cases."""
    cached = cache.entry_for(entry.path, entry.variant, context.device.key, cache_dir())
    others = case_selection.others(problem, context.options, cases)
    wanted = case_selection.rehearsals(problem, cases, others.values(), derived)
    seen = cached.rehearsed()
    return Job(entry=entry, cached=cached, rehearsals={key: one for key, one in wanted.items() if key not in seen})


def at_once(processors: int) -> int:
    """Return the number of parallel builds."""
    return max(1, processors // PROCESSORS_EACH)


def build_all(jobs: Sequence[Job], builder: Builder) -> Iterator[Job | Built]:
    """Build; yield each job as it starts, and its result as it ends. Closing stops the builds. Raises MachineError."""
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
