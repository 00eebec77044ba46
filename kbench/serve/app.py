"""The HTTP interface: routes, authorisation and limits, and the server that has them."""

import asyncio
import hmac
import math
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from kbench.api.judge import Judge
from kbench.core.errors import KbenchError
from kbench.core.version import __version__
from kbench.serve.schema import (
    BatchEvaluationRequest,
    BatchEvaluationResponse,
    EvaluationRequest,
    EvaluationResponse,
)
from kbench.serve.service import STORES_AGAIN_S, ConflictError, QueueFullError, ServerOptions, Service
from kbench.serve.store import TaskStore

BODY_S = 20.0
"""Chosen. Seconds that a client may take to send a body."""
MOST_BODIES = 16
"""Chosen. Bodies that are read at a time: 64 oversized ones then take 0.36 GB, not 0.85."""
OPEN_PATHS = frozenset({"/health", "/openapi.json"})
WaitSeconds = Annotated[
    float | None, Query(ge=0, le=7200, description="Seconds to wait for the answer; absent: no limit.")
]
Fields = dict[str, Any]


class Doorkeeper:
    """An ASGI middleware that requires the token and a body within the limits of size and time."""

    def __init__(self, app: Any, token: str, most_bytes: int):
        self._app = app
        self._token = f"Bearer {token}".encode()
        self._most_bytes = most_bytes
        self._reading = asyncio.Semaphore(MOST_BODIES)

    async def __call__(
        self,
        scope: Fields,
        receive: Callable[[], Awaitable[Fields]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Answer a refused request; pass on a complete one."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        given = headers.get(b"authorization", b"")
        length = headers.get(b"content-length", b"0")
        too_long = 413, f"a body may have at most {self._most_bytes} bytes"
        refusal: tuple[int, str] | None = None
        if scope["path"] not in OPEN_PATHS and not hmac.compare_digest(given, self._token):
            refusal = 401, "send `Authorization: Bearer TOKEN`"
        elif not length.isdigit() or int(length) > self._most_bytes:
            refusal = too_long
        body = bytearray()
        if refusal is None:
            try:
                async with self._reading, asyncio.timeout(BODY_S):
                    async for part in Request(scope, receive).stream():
                        body += part
                        if len(body) > self._most_bytes:
                            refusal = too_long
                            break
            except TimeoutError:
                refusal = 408, f"the body did not arrive within {BODY_S:g} s"
            except ClientDisconnect:
                return
        if refusal is not None:
            status, message = refusal
            answer = JSONResponse({"error": message}, status, headers={"Connection": "close"})
            await answer(scope, receive, send)
            return
        whole = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def again() -> Fields:
            return whole.pop() if whole else await receive()

        await self._app(scope, again, send)


def make_app(service: Service, token: str, *, most_bytes: int) -> FastAPI:
    """Return the application; it starts the `service` on its event loop."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await service.stop()

    app = FastAPI(title="kbench", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.add_middleware(Doorkeeper, token=token, most_bytes=most_bytes)
    _add_errors(app)
    _add_tasks(app, service)
    _add_state(app, service)
    return app


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(QueueFullError)
    async def full(_request: Request, error: QueueFullError) -> Response:
        return JSONResponse({"error": str(error)}, 429, headers={"Retry-After": str(error.retry_after_s)})

    @app.exception_handler(ConflictError)
    async def conflict(_request: Request, error: ConflictError) -> Response:
        return JSONResponse({"error": str(error)}, 409)

    @app.exception_handler(sqlite3.Error)
    async def not_stored(_request: Request, error: sqlite3.Error) -> Response:
        message = f"the request cannot be stored: {error}"
        return JSONResponse({"error": message}, 503, headers={"Retry-After": str(math.ceil(STORES_AGAIN_S))})

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> Response:
        """Name the invalid fields, without sources or other input."""
        found = [{"field": ".".join(map(str, one["loc"])), "error": one["msg"]} for one in error.errors()[:20]]
        return JSONResponse({"error": "the request is not valid", "fields": found}, 422)

    @app.exception_handler(KbenchError)
    async def usage(_request: Request, error: KbenchError) -> Response:
        return JSONResponse({"error": error.message, "hint": error.hint}, 422)


def _add_tasks(app: FastAPI, service: Service) -> None:
    @app.post("/evaluate", response_model=EvaluationResponse)
    async def evaluate(request: EvaluationRequest, response: Response, wait: WaitSeconds = None) -> EvaluationResponse:
        """Judge one solution. Waits for the answer; 202 if it is not ready in time."""
        (known,) = service.submit([request])
        answer = await service.wait(known, wait)
        response.status_code = 202 if answer.status in {"pending", "processing"} else 200
        return answer

    @app.post("/evaluate/batch", response_model=BatchEvaluationResponse)
    async def evaluate_batch(batch: BatchEvaluationRequest, wait: WaitSeconds = None) -> BatchEvaluationResponse:
        """Judge several solutions: all of them are accepted, or none."""
        known = service.submit(batch.tasks)
        answers = await asyncio.gather(*(service.wait(one, wait) for one in known))
        done = [one for one in answers if one.status == "completed"]
        lost = [one for one in answers if one.status in {"failed", "timeout", "cancelled"}]
        counts = {"total_tasks": len(answers), "completed_tasks": len(done), "failed_tasks": len(lost)}
        return BatchEvaluationResponse(batch_id=batch.batch_id, results=answers, **counts)

    @app.get("/results/{task_id}", response_model=EvaluationResponse)
    async def results(task_id: str) -> Any:
        """Return the state of a task."""
        return service.result(task_id) or _unknown(task_id)

    @app.delete("/tasks/{task_id}", response_model=EvaluationResponse)
    async def cancel(task_id: str) -> Any:
        """Cancel a task; 409 if it has its answer."""
        return service.cancel(task_id) or _unknown(task_id)


def _unknown(task_id: str) -> Response:
    return JSONResponse({"error": f"no such task: `{task_id[:100]}`"}, 404)


def _add_state(app: FastAPI, service: Service) -> None:
    @app.get("/health")
    async def health() -> Response:
        """Return whether tasks get their answers (503 if not, and why), and their number."""
        queue = {"pending": service.pending, "processing": service.processing}
        state: Fields = {"kbench_version": __version__, "queue_status": queue, "answered": service.answered}
        if trouble := service.trouble:
            return JSONResponse({"status": "unhealthy", "reason": trouble, **state}, 503)
        return JSONResponse({"status": "healthy", **state})


def make_server(judge: Judge, options: ServerOptions) -> tuple[uvicorn.Server, TaskStore]:
    """Return a server that is not running yet, and the store to close when it ends."""
    store = TaskStore(options.state / "tasks.sqlite")
    service = Service(judge, store, options)
    app = make_app(service, options.token, most_bytes=options.most_bytes)
    config = uvicorn.Config(
        app, host=options.host, port=options.port, log_level="warning", access_log=False, timeout_graceful_shutdown=5
    )
    return uvicorn.Server(config), store


def serve(judge: Judge, options: ServerOptions) -> None:
    """Serve until SIGINT or SIGTERM."""
    server, store = make_server(judge, options)
    try:
        server.run()
    finally:
        store.close()
