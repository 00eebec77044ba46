"""A server on loopback, in a thread, over judges that follow their sources (`pooling`)."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from pooling import CASES, Pool, solution

from kbench.serve.app import make_server
from kbench.serve.service import ServerOptions
from kbench.serve.store import TaskStore

TOKEN = "a-token-for-these-tests"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


class Running:
    """A server in a thread, and a client of it."""

    def __init__(self, port: int, pool: Pool, store: TaskStore):
        self.port = port
        self.store = store
        self.pool = pool
        self.url = f"http://127.0.0.1:{port}"
        self.client = httpx.Client(base_url=self.url, headers=HEADERS, timeout=30)

    def evaluate(self, says: str = "passed", number: int = 0, wait: float | None = None, **told) -> httpx.Response:
        body = {"reference_code": CASES, "kernel_code": solution(says, number), **told}
        return self.client.post("/evaluate", json=body, params={} if wait is None else {"wait": wait})


@contextlib.contextmanager
def serving(state: Path, *, lanes: int = 2, pool_options=None, **options) -> Iterator[Running]:
    """Serve while the block lasts; tasks and answers are kept in `state`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    told = {"references": True, "state": state, **options}
    pool = Pool()
    with pool.judge(lanes=lanes, **(pool_options or {})) as judge:
        server, store = make_server(judge, ServerOptions(token=TOKEN, port=port, **told))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        running = Running(port, pool, store)
        try:
            yield running
        finally:
            running.client.close()
            pool.released.set()
            server.should_exit = True
            thread.join()
            store.close()
