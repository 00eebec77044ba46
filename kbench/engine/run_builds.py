"""The build stage of a run: solutions are built in parallel, as far as the processors allow."""

import os
import queue
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from kbench.core.model import Failed
from kbench.host.builder import Builder, Job

PROCESSORS_EACH = 2
"""Processors for each build: a compiler and its linker, or Python and what it compiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The result of a job."""

    job: Job
    failure: Failed | None
    elapsed_s: float


def at_once(processors: int) -> int:
    """Return the number of parallel builds."""
    return max(1, processors // PROCESSORS_EACH)


def build_all(jobs: Sequence[Job], builder: Builder) -> Iterator[Job | Built]:
    """Build; yield each job as it starts, and its result as it ends. Closing stops the builds. Raises MachineError."""
    told: queue.SimpleQueue[Job | Future[Built]] = queue.SimpleQueue()

    def build(job: Job) -> Built:
        told.put(job)
        began = time.monotonic()
        failure = builder.build(job.entry, job.rehearsals)
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
