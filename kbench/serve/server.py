"""Starts a server: the pool, its folder, its token, and who may reach it."""

import ipaddress
import secrets
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import uvicorn

from kbench.api.judge import Judge
from kbench.core.errors import UsageError
from kbench.serve.app import MOST_BODY_BYTES, make_app
from kbench.serve.metrics import Metrics
from kbench.serve.service import Service
from kbench.serve.store import TaskStore

MOST_PENDING = 1000
SHORTEST_TOKEN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What a server is told beyond what its pool is told."""

    token: str
    state: Path
    host: str = "127.0.0.1"
    port: int = 8765
    most_pending: int = MOST_PENDING
    most_bytes: int = MOST_BODY_BYTES
    references: bool = False
    """Whether clients may send texts of problems, which the trusted judge runs."""
    keep: timedelta = timedelta(days=30)
    """How long answers stay."""


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def choose_token(given: str | None, host: str) -> tuple[str, bool]:
    """Return the token, and whether it was made up here, which only a server on loopback may do.

    Raises:
        UsageError: no token for a server that others reach, or one that can be guessed.
    """
    if given is None:
        if not is_loopback(host):
            raise UsageError(f"others reach {host}, and there is no token", "`--token-file FILE`, or KBENCH_TOKEN")
        return secrets.token_urlsafe(24), True
    if len(given) < SHORTEST_TOKEN or not given.isascii() or not given.isprintable():
        raise UsageError(f"the token is shorter than {SHORTEST_TOKEN} plain characters", "`openssl rand -hex 24`")
    return given, False


def make_server(judge: Judge, options: ServerOptions) -> tuple[uvicorn.Server, TaskStore]:
    """Return a server that is not running yet, and the store to close when it has ended."""
    store = TaskStore(options.state / "tasks.sqlite")

    def service() -> Service:
        return Service(
            judge,
            store,
            Metrics(),
            most_pending=options.most_pending,
            references=options.references,
            keep=options.keep,
        )

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
