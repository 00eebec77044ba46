"""The queue of a server: accepts requests, has a pool judge them, and stores the answers. Uses one event loop."""

import asyncio
import contextlib
import hashlib
import math
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import ValidationError

from kbench.api.judge import Judge
from kbench.core.errors import KbenchError, UsageError
from kbench.serve.answers import answer_of, failed, moved_on
from kbench.serve.schema import EvaluationRequest, EvaluationResponse
from kbench.serve.store import StoredTask, TaskStore

AHEAD = 2
"""Chosen. Tasks per lane of the pool, so that one is built while another is judged."""
FORGET_EVERY_S = 3600.0
STORES_AGAIN_S = 2.0
"""Chosen. Seconds until a write that the store refused is tried again."""
MOST_STARTS = 3
"""A task that was started three times without an answer may have ended the server each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Options of a server beside those of its pool."""

    token: str
    state: Path
    host: str = "127.0.0.1"
    port: int = 8765
    most_pending: int = 1000
    most_bytes: int = 8 << 20
    references: bool = False
    """True if clients may send problem sources, which the trusted judge runs."""
    keep: timedelta = timedelta(days=30)


class QueueFullError(Exception):
    """The queue is full; it may have room after `retry_after_s`."""

    def __init__(self, retry_after_s: int):
        super().__init__(f"the queue is full; try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class ConflictError(Exception):
    """The task_id belongs to another request, or the task has its answer already."""


@dataclass(slots=True)
class _Open:
    request: EvaluationRequest
    answer: EvaluationResponse
    submitted_s: float
    done: "asyncio.Future[EvaluationResponse]"
    expiry: asyncio.TimerHandle


class Service:
    """A bounded queue, first in, first out. Every accepted task gets one answer, also after a restart."""

    def __init__(self, judge: Judge, store: TaskStore, options: ServerOptions):
        self._judge = judge
        self._store = store
        self._options = options
        self._open: dict[str, _Open] = {}
        self._pending: asyncio.Queue[str] = asyncio.Queue()
        self._workers: list[asyncio.Task[None]] = []
        self._mean_s = 1.0
        self.answered = 0
        self._trouble = ""
        self.slots = judge.lanes * AHEAD

    @property
    def pending(self) -> int:
        """Number of waiting tasks."""
        return sum(one.answer.status == "pending" for one in self._open.values())

    @property
    def processing(self) -> int:
        """Number of tasks in the pool."""
        return len(self._open) - self.pending

    @property
    def trouble(self) -> str:
        """Why tasks get no answers now; empty while they do."""
        gone = self._workers and any(worker.done() for worker in self._workers)
        return "a worker of the queue has ended" if gone else self._trouble

    def start(self) -> None:
        """Start, with the unanswered tasks of an earlier server."""
        for stored in self._store.unfinished():
            try:
                self._admit(stored)
            except ValidationError:
                fields = failed("harness_error", "stored by a server that took other requests", retryable=True)
                answer = moved_on(self._current(stored), fields | {"completed_at": _now()})
                self._store.finish(stored.task_id, answer.model_dump_json())
                continue
            if stored.starts >= MOST_STARTS:
                reason = f"started {stored.starts} times without an answer"
                self._finish(stored.task_id, failed("harness_error", reason, retryable=True))
        self._workers = [asyncio.create_task(self._work()) for _ in range(self.slots)]
        self._workers.append(asyncio.create_task(self._forget()))

    async def stop(self) -> None:
        """Stop; the next server of the same folder continues with the unanswered tasks."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        for one in self._open.values():
            one.expiry.cancel()

    def submit(self, requests: Sequence[EvaluationRequest]) -> list[EvaluationResponse]:
        """Accept all requests or none; return the state of each. A repeated request gets its existing answer.

        Raises UsageError for what this server does not take, ConflictError for a task_id of another request, and
        QueueFullError without room for all.
        """
        known: list[StoredTask] = []
        fresh: dict[str, StoredTask] = {}
        for request in requests:
            self._check(request)
            task_id = request.task_id or str(uuid4())
            digest = hashlib.sha256(request.model_dump_json(exclude={"task_id"}).encode()).hexdigest()
            stored = fresh.get(task_id) or self._store.get(task_id)
            if stored is None:
                fields: dict[str, Any] = {"submitted_at": _now(), "metadata": {"not_used": request.not_used}}
                answer = EvaluationResponse(task_id=task_id, status="pending", **fields).model_dump_json()
                asked = request.model_dump_json()
                stored = fresh[task_id] = StoredTask(task_id=task_id, digest=digest, request=asked, answer=answer)
            elif stored.digest != digest:
                raise ConflictError(f"`{task_id}` is the task_id of another request")
            known.append(stored)
        if fresh and self.pending + len(fresh) > self._options.most_pending:
            raise QueueFullError(max(1, math.ceil(self._mean_s * self.pending / self.slots)))
        self._store.add(fresh.values())
        for stored in fresh.values():
            self._admit(stored)
        return [self._current(stored) for stored in known]

    def result(self, task_id: str) -> EvaluationResponse | None:
        """Return the state of a task; None if there is no such task."""
        stored = self._store.get(task_id)
        return None if stored is None else self._current(stored)

    async def wait(self, answer: EvaluationResponse, wait_s: float | None) -> EvaluationResponse:
        """Wait for the answer of a task for at most `wait_s`; return its state."""
        one = self._open.get(answer.task_id)
        if one is None or wait_s == 0:
            return answer
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(asyncio.shield(one.done), wait_s)
        return one.answer

    def cancel(self, task_id: str) -> EvaluationResponse | None:
        """Cancel a task, which the pool may still judge; None if there is none. Raises ConflictError if it is done."""
        if task_id in self._open:
            self._finish(task_id, {"status": "cancelled", "error_message": "cancelled by its client"})
        elif self._store.get(task_id) is not None:
            raise ConflictError(f"`{task_id}` has its answer already")
        return self.result(task_id)

    def _check(self, request: EvaluationRequest) -> None:
        if request.reference_code is not None and not self._options.references:
            message = "this server does not accept `reference_code`, which would run in its trusted judge"
            raise UsageError(message, "name a `problem`, or start the server with `--accept-references`")
        self._judge.check(**_options(request))

    def _current(self, stored: StoredTask) -> EvaluationResponse:
        one = self._open.get(stored.task_id)
        return one.answer if one is not None else EvaluationResponse.model_validate_json(stored.answer)

    def _admit(self, stored: StoredTask) -> None:
        """Queue a task. Raises ValidationError for a request of another version of kbench."""
        loop, request = asyncio.get_running_loop(), EvaluationRequest.model_validate_json(stored.request)
        answer = EvaluationResponse.model_validate_json(stored.answer).model_copy(update={"status": "pending"})
        expiry = loop.call_later(request.queue_timeout, self._expire, answer.task_id)
        self._open[answer.task_id] = _Open(request, answer, time.monotonic(), loop.create_future(), expiry)
        self._pending.put_nowait(answer.task_id)

    def _expire(self, task_id: str) -> None:
        one = self._open.get(task_id)
        if one is not None and one.answer.status == "pending":
            reason = f"not started within {one.request.queue_timeout:g} s"
            try:
                self._finish(task_id, failed("queue_timeout", reason, retryable=True) | {"status": "timeout"})
            except sqlite3.Error:  # the answer comes once it can be stored
                one.expiry = asyncio.get_running_loop().call_later(STORES_AGAIN_S, self._expire, task_id)

    async def _forget(self) -> None:
        while True:
            await self._stored(lambda: self._store.forget(_now(self._options.keep)))
            await asyncio.sleep(FORGET_EVERY_S)

    async def _work(self) -> None:
        while True:
            task_id = await self._pending.get()
            one = self._open.get(task_id)
            if one is None:
                continue  # cancelled, or waited too long
            try:
                await self._answer(task_id, one)
            except Exception as error:  # noqa: BLE001 - an answer that cannot be given must not end the queue
                fields = failed("harness_error", f"no answer: {type(error).__name__}", retryable=True)
                await self._finished(task_id, fields)

    async def _answer(self, task_id: str, one: _Open) -> None:
        began_s = time.monotonic()
        one.answer = moved_on(one.answer, {"status": "processing", "queue_time": began_s - one.submitted_s})
        await self._stored(lambda: self._store.begin(task_id, one.answer.model_dump_json()))
        fields = await self._judged(one.request)
        spent_s = time.monotonic() - began_s
        self._mean_s += (spent_s - self._mean_s) / 8
        await self._finished(task_id, fields | {"processing_time": spent_s})

    async def _finished(self, task_id: str, fields: dict[str, Any]) -> None:
        """Give a task its answer, unless it has one."""
        await self._stored(lambda: self._finish(task_id, fields) if task_id in self._open else None)

    async def _stored(self, write: Callable[[], None]) -> None:
        """Write to the store; while its disk has no room, wait: an answer that is not stored would be lost."""
        while True:
            try:
                write()
            except sqlite3.OperationalError as error:
                self._trouble = f"answers cannot be stored: {error}"
                await asyncio.sleep(STORES_AGAIN_S)
            else:
                self._trouble = ""
                return

    async def _judged(self, request: EvaluationRequest) -> dict[str, Any]:
        problem = request.problem or f"{request.reference_code}\n"  # a line break makes it a text
        solution = request.solution or f"{request.kernel_code}\n"
        try:
            found = await self._judge.evaluate_async(problem, solution, entry=request.entry, **_options(request))
        except UsageError as error:
            return failed("usage", _message_of(error))
        except KbenchError as error:
            return failed("harness_error", _message_of(error), retryable=True)
        except Exception as error:  # noqa: BLE001 - a defect is reported to the client, and the server continues
            return failed("harness_error", f"{type(error).__name__}: {error}", retryable=True)
        return answer_of(found[0])

    def _finish(self, task_id: str, fields: dict[str, Any]) -> None:
        one = self._open[task_id]
        answer = moved_on(one.answer, {**fields, "completed_at": _now()})
        self._store.finish(task_id, answer.model_dump_json())
        del self._open[task_id]
        one.answer = answer
        one.expiry.cancel()
        self.answered += 1
        one.done.set_result(one.answer)


def _message_of(error: KbenchError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message


def _now(earlier: timedelta = timedelta()) -> str:
    return (datetime.now(UTC) - earlier).isoformat(timespec="milliseconds")


def _options(request: EvaluationRequest) -> dict[str, Any]:
    """Return the options of a request that differ from those of the pool."""
    fields = {
        "verify_only": request.verify_only,
        "level": request.level,
        "accept": tuple(request.accept),
        "cases": request.case,
        "overrides": request.overrides,
    }
    return {"timeout_s": request.timeout, **{name: value for name, value in fields.items() if value}}
