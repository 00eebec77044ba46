"""Starts a server: its pool, folder, token and address."""

import ipaddress
import secrets

import uvicorn

from kbench.api.judge import Judge
from kbench.core.errors import UsageError
from kbench.serve.app import make_app
from kbench.serve.service import ServerOptions, Service
from kbench.serve.store import TaskStore

SHORTEST_TOKEN = 16


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def choose_token(given: str | None, host: str) -> tuple[str, bool]:
    """Return the token, and whether it was generated here. Raises UsageError for none off loopback, or a short one."""
    if given is None:
        if not is_loopback(host):
            message = f"other machines can reach {host}, and there is no token"
            raise UsageError(message, "give one with `--token-file FILE` or KBENCH_TOKEN")
        return secrets.token_urlsafe(24), True
    if len(given) < SHORTEST_TOKEN or not given.isascii() or not given.isprintable():
        message = f"the token needs {SHORTEST_TOKEN} or more printable ASCII characters"
        raise UsageError(message, "`openssl rand -hex 24`")
    return given, False


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
