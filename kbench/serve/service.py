"""The queue of a server: takes requests, has a pool judge them, keeps the answers. Lives on one event loop."""

import asyncio
import contextlib
import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from kbench.api.judge import Judge
from kbench.core.errors import KbenchError, UsageError
from kbench.core.events import TimeLimits
from kbench.serve.answers import answer_of, failed, moved_on
from kbench.serve.metrics import Metrics
from kbench.serve.schema import EvaluationRequest, EvaluationResponse
from kbench.serve.store import StoredTask, TaskStore

AHEAD = 2
"""Chosen. Tasks for each lane that the pool has, so that one is built while another is judged."""
FORGET_EVERY_S = 3600.0
MOST_STARTS = 3
"""A task that was begun three times and has no answer may have ended the server each time."""


class QueueFullError(Exception):
    """The queue has no room; `retry_after_s` is when it may have."""

    def __init__(self, retry_after_s: int):
        super().__init__(f"the queue is full; try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class ConflictError(Exception):
    """A task_id that another request has, or a task that is past being cancelled."""


@dataclass(slots=True)
class _Open:
    """A task without an answer."""

    request: EvaluationRequest
    answer: EvaluationResponse
    submitted_s: float
    done: "asyncio.Future[EvaluationResponse]"
    expiry: asyncio.TimerHandle | None = None


class Service:
    """Bounded, first come, first served. Every accepted task gets one answer, also after a restart."""

    def __init__(
        self,
        judge: Judge,
        store: TaskStore,
        metrics: Metrics,
        *,
        most_pending: int,
        references: bool,
        keep: timedelta,
    ):
        self._judge = judge
        self._store = store
        self._metrics = metrics
        self._most_pending = most_pending
        self._references = references
        self._keep = keep
        self._open: dict[str, _Open] = {}
        self._pending: asyncio.Queue[str] = asyncio.Queue()
        self._workers: list[asyncio.Task[None]] = []
        self._mean_s = 1.0
        self.slots = judge.lanes * AHEAD
        """Tasks that the pool has at a time."""

    @property
    def pending(self) -> int:
        """Tasks that nobody has begun."""
        return sum(one.answer.status == "pending" for one in self._open.values())

    @property
    def processing(self) -> int:
        """Tasks that the pool has."""
        return len(self._open) - self.pending

    def metrics(self) -> Metrics:
        """Return the metrics as they are now."""
        self._metrics.pending.set(self.pending)
        self._metrics.processing.set(self.processing)
        return self._metrics

    def start(self) -> None:
        """Take up what an earlier server accepted and did not answer, and begin."""
        for stored in self._store.unfinished():
            answer = EvaluationResponse.model_validate_json(stored.answer)
            self._admit(EvaluationRequest.model_validate_json(stored.request), answer)
            if stored.starts >= MOST_STARTS:
                reason = f"begun {stored.starts} times without an answer"
                self._finish(stored.task_id, failed("harness_error", reason, retryable=True))
        self._workers = [asyncio.create_task(self._work()) for _ in range(self.slots)]
        self._workers.append(asyncio.create_task(self._forget()))

    async def stop(self) -> None:
        """Stop; what has no answer is taken up by the next server of the same folder."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        for one in self._open.values():
            if one.expiry is not None:
                one.expiry.cancel()

    def submit(self, requests: Sequence[EvaluationRequest]) -> list[EvaluationResponse]:
        """Take requests, all or none; return what is known of each. A repeated one gets the answer that it has.

        Raises:
            UsageError: a text of a problem where the server takes none, or options that the pool cannot have.
            ConflictError: a task_id that another request has.
            QueueFullError: no room for all of them.
        """
        known: dict[str, EvaluationResponse] = {}
        fresh: dict[str, tuple[EvaluationRequest, str]] = {}
        ids = [request.task_id or str(uuid4()) for request in requests]
        for task_id, request in zip(ids, requests, strict=True):
            self._check(request)
            digest = hashlib.sha256(request.model_dump_json(exclude={"task_id"}).encode()).hexdigest()
            stored = self._store.get(task_id)
            if stored is not None:
                known[task_id] = self._current(stored)
            if (stored is not None and stored.digest != digest) or fresh.get(task_id, ("", digest))[1] != digest:
                raise ConflictError(f"`{task_id}` is the task_id of another request")
            if stored is None:
                fresh[task_id] = request, digest
        if fresh and self.pending + len(fresh) > self._most_pending:
            self._metrics.refused.inc(len(fresh))
            raise QueueFullError(max(1, math.ceil(self._mean_s * self.pending / self.slots)))
        now = _now()
        answers = {
            task_id: EvaluationResponse(
                task_id=task_id, status="pending", submitted_at=now, metadata={"not_used": request.not_used}
            )
            for task_id, (request, _) in fresh.items()
        }
        self._store.add(
            StoredTask(
                task_id=task_id,
                digest=digest,
                request=request.model_dump_json(),
                answer=answers[task_id].model_dump_json(),
            )
            for task_id, (request, digest) in fresh.items()
        )
        for task_id, (request, _) in fresh.items():
            self._admit(request, answers[task_id])
        return [known.get(task_id) or answers[task_id] for task_id in ids]

    def result(self, task_id: str) -> EvaluationResponse | None:
        """Return what is known of a task; None for one that nobody sent."""
        stored = self._store.get(task_id)
        return None if stored is None else self._current(stored)

    async def wait(self, answer: EvaluationResponse, wait_s: float | None) -> EvaluationResponse:
        """Wait for the answer of a task, at most so long; return what is known then."""
        one = self._open.get(answer.task_id)
        if one is None or wait_s == 0:
            return answer
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(asyncio.shield(one.done), wait_s)
        return one.answer

    def cancel(self, task_id: str) -> EvaluationResponse | None:
        """Cancel a task; None for one that nobody sent. What the pool has goes on, and its verdict is dropped.

        Raises:
            ConflictError: a task that has its answer.
        """
        if task_id in self._open:
            self._finish(task_id, {"status": "cancelled", "error_message": "cancelled by its client"})
        elif self._store.get(task_id) is not None:
            raise ConflictError(f"`{task_id}` has its answer already")
        return self.result(task_id)

    def _check(self, request: EvaluationRequest) -> None:
        if request.reference_code is not None and not self._references:
            message = "this server judges the problems that it has: `reference_code` would run in its trusted judge"
            raise UsageError(message, "name a `problem`, or start it with `--accept-references`")
        self._judge.check(**_options(request))

    def _current(self, stored: StoredTask) -> EvaluationResponse:
        one = self._open.get(stored.task_id)
        return one.answer if one is not None else EvaluationResponse.model_validate_json(stored.answer)

    def _admit(self, request: EvaluationRequest, answer: EvaluationResponse) -> None:
        loop = asyncio.get_running_loop()
        answer = answer.model_copy(update={"status": "pending"})
        one = self._open[answer.task_id] = _Open(request, answer, time.monotonic(), loop.create_future())
        one.expiry = loop.call_later(request.queue_timeout, self._expire, answer.task_id)
        self._pending.put_nowait(answer.task_id)

    def _expire(self, task_id: str) -> None:
        one = self._open.get(task_id)
        if one is not None and one.answer.status == "pending":
            reason = f"not begun within {one.request.queue_timeout:g} s"
            self._finish(task_id, failed("queue_timeout", reason, retryable=True) | {"status": "timeout"})

    async def _forget(self) -> None:
        """Delete old answers, now and every hour."""
        while True:
            self._store.forget(_now(self._keep))
            await asyncio.sleep(FORGET_EVERY_S)

    async def _work(self) -> None:
        while True:
            task_id = await self._pending.get()
            one = self._open.get(task_id)
            if one is None:
                continue  # cancelled, or waited too long
            began_s = time.monotonic()
            queued_s = began_s - one.submitted_s
            self._metrics.queue_seconds.observe(queued_s)
            one.answer = moved_on(one.answer, {"status": "processing", "queue_time": queued_s})
            self._store.begin(task_id, one.answer.model_dump_json())
            told = await self._judged(one.request)
            spent_s = time.monotonic() - began_s
            self._mean_s += (spent_s - self._mean_s) / 8
            self._metrics.execution_seconds.observe(spent_s)
            if task_id in self._open:
                self._finish(task_id, told | {"processing_time": spent_s})

    async def _judged(self, request: EvaluationRequest) -> dict[str, Any]:
        """Have the pool judge a request; return what its answer says."""
        problem = request.problem or f"{request.reference_code}\n"  # a line break makes it a text
        solution = request.solution or f"{request.kernel_code}\n"
        try:
            found = await self._judge.evaluate_async(problem, solution, entry=request.entry, **_options(request))
        except UsageError as error:
            return failed("usage", _told(error))
        except KbenchError as error:
            return failed("harness_error", _told(error), retryable=True)
        except Exception as error:  # noqa: BLE001 - a defect is told to who asked, and the server goes on
            return failed("harness_error", f"{type(error).__name__}: {error}", retryable=True)
        return answer_of(found[0])

    def _finish(self, task_id: str, told: dict[str, Any]) -> None:
        one = self._open.pop(task_id)
        if one.expiry is not None:
            one.expiry.cancel()
        one.answer = moved_on(one.answer, {**told, "completed_at": _now()})
        self._store.finish(task_id, one.answer.model_dump_json())
        self._metrics.answers.labels(one.answer.status, one.answer.verdict or "none").inc()
        one.done.set_result(one.answer)


def _told(error: KbenchError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message


def _now(earlier: timedelta = timedelta()) -> str:
    return (datetime.now(UTC) - earlier).isoformat(timespec="milliseconds")


def _options(request: EvaluationRequest) -> dict[str, Any]:
    """Return the options of a request that are not those of the pool."""
    told: dict[str, Any] = {"limits": TimeLimits(total_s=request.timeout)}
    if request.verify_only:
        told["verify_only"] = True
    if request.level is not None:
        told["level"] = request.level
    if request.accept:
        told["accept"] = tuple(request.accept)
    if request.case is not None:
        told["cases"] = (request.case,)
    if request.overrides:
        told["overrides"] = dict(request.overrides)
    return told
