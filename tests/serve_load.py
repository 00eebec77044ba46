"""Many clients at a real `kbench serve`, a fifth of their requests hostile: nothing lost, nothing mixed up, no growth.

    python tests/serve_load.py --requests 10000 --clients 64      with what docs/serve.md reports
    python tests/serve_load.py --requests 40 --clients 10         what `make test` runs

The server is a process of its own on the CPU, with real judges and sandboxed workers, and verifies a tiny problem.
Each source is different, and its answer must show that: it has the hash of that very source and, where the solution
raises, its own number in the message. `--judged` is the share of honest sources that reach a worker; the others
are refused while they are read, but pass the same queue and the same store. Exit code 1 where something is wrong.
"""

import argparse
import contextlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import tiny_corpus

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kbench.build.manifest import identity
from kbench.sandbox.process_table import members

ROOT = Path(__file__).resolve().parent.parent

TOKEN = "a-token-for-a-load-test"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
PROBLEM = tiny_corpus.problem(
    "x + 1", given="torch.rand(8, n)", constants='n = 64\nCASES = {"default": {}, "ragged": {"n": 33}}'
)
UNREADABLE = "class ModelNew candidate_{number}:\n"
JUDGED = {
    "passes": ("return x + 1  # {number}", {"passed"}),
    "wrong": ("return x + {number}.5", {"wrong_value"}),
    "raises": ("raise ValueError('candidate {number} raises')", {"raised"}),
    "exits": ("os._exit({number} % 100 + 1)", {"exited"}),
}
"""By name: the body of `forward`, and the verdicts that are right."""
HOSTILE = {
    "hangs": ("time.sleep(3600 + {number})", {"call_timeout", "total_timeout"}),
    "floods": ("sys.stdout.write('{number} ' * 10_000_000)\n        return x + 1", {"passed"}),
    "forks": (
        "[os.fork() or time.sleep(3600 + {number}) for _ in range(20)]\n        return x + 1",
        {"passed", "raised", "crashed", "killed", "exited", "out_of_memory"},  # its build may fork, within its memory
    ),
}
TIMEOUT_S = 3.0
"""Of a solution that hangs."""
PATIENCE_S = 900.0
QUEUE = 40
"""Fewer than 64 clients, so that some of them are told to come again."""
MOST_GROWTH_MB = 32
"""Chosen. Of the server's own memory, from a tenth of the requests to the end of all."""

MOST_PROCESSES = 4
"""Chosen. More than at first: workers that get ready ahead. A solution that forks leaves 20."""
ENDS_WITHIN_S = 10.0
"""Chosen. The last workers may need this long to end, on busy processors."""


def solution_text(number: int, kind: str) -> str:
    """Return the source of a kind that has this number."""
    if kind == "unreadable":
        return UNREADABLE.format(number=number)
    body, _ = {**JUDGED, **HOSTILE}[kind]
    return tiny_corpus.solution(body.format(number=number), head="import os, sys, time\n")


@dataclass(slots=True)
class Tally:
    """What the clients found, for all threads."""

    verdicts: Counter[str] = field(default_factory=Counter)
    answers: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    full: int = 0
    """How often the queue had no room."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def blame(self, what: str) -> None:
        """Keep what must not happen."""
        with self.lock:
            self.wrong.append(what)


class Clients:
    """All that clients do to a server; each request has a number of its own."""

    def __init__(self, port: int, folder: Path, judged: float, hanging: float, seed: int):
        self._port = port
        self._url = f"http://127.0.0.1:{port}"
        self._folder = folder
        self._judged = judged
        self._hanging = hanging
        self._seed = seed
        self._local = threading.local()
        self.tally = Tally()

    def send(self, number: int) -> None:
        """Make one request, every fifth a hostile one."""
        chance = random.Random(f"{self._seed} {number}")
        if number % 5:
            kind = chance.choice(list(JUDGED)) if chance.random() < self._judged else "unreadable"
        elif chance.random() < self._hanging:
            kind = chance.choice(list(HOSTILE))
        else:
            kind = chance.choice(list(self._attacks()))
        try:
            self._attacks().get(kind, self._candidate)(number, kind)
        except Exception as error:  # noqa: BLE001 - a client that fails must not end the others
            self.tally.blame(f"{kind} {number}: {type(error).__name__}: {error}")

    def check_kept(self) -> None:
        """Ask for every answer again: the server must have kept it as it was."""
        for task_id, said in self.tally.answers.items():
            kept = self._client.get(f"/results/{task_id}")
            if json.dumps(kept.json(), sort_keys=True) != said:
                self.tally.blame(f"{task_id}: the answer that is kept is another one: {kept.text[:300]}")

    @property
    def _client(self) -> httpx.Client:
        if not hasattr(self._local, "client"):
            self._local.client = httpx.Client(base_url=self._url, headers=HEADERS, timeout=PATIENCE_S)
        client: httpx.Client = self._local.client
        return client

    def _attacks(self) -> dict[str, Callable[[int, str], None]]:
        return {
            "50 MB": self._large,
            "endless": self._endless,
            "cut": self._cut,
            "gone": self._impatient,
        }

    # --- solutions -----------------------------------------------------------------

    def _body(self, number: int, kind: str) -> dict[str, Any]:
        timeout = {"timeout": TIMEOUT_S} if kind == "hangs" else {}
        text = solution_text(number, kind)
        return {"task_id": f"t{number}", "problem": "plus_one", "kernel_code": text, "level": "task", **timeout}

    def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        """Send a request until the queue has room for it; return its answer."""
        while (told := self._sent(body)).status_code == 429:
            with self.tally.lock:
                self.tally.full += 1
            time.sleep(min(float(told.headers["Retry-After"]), 2.0))
        if told.status_code != 200:
            raise ValueError(f"{told.status_code} {told.text[:300]}")
        answer: dict[str, Any] = told.json()
        return answer

    def _sent(self, body: dict[str, Any]) -> httpx.Response:
        """Send a request; once more if the server was just closing the idle connection. The task keeps its answer."""
        with contextlib.suppress(httpx.ReadError, httpx.RemoteProtocolError):
            return self._client.post("/evaluate", json=body)
        return self._client.post("/evaluate", json=body)

    def _candidate(self, number: int, kind: str) -> None:
        self._check(number, kind, self._post(self._body(number, kind)))

    def _check(self, number: int, kind: str, answer: dict[str, Any]) -> None:
        """Hold an answer against the source that it belongs to."""
        wanted = {"import_failed"} if kind == "unreadable" else {**JUDGED, **HOSTILE}[kind][1]
        path = self._folder / f"{number}.py"
        path.write_text(solution_text(number, kind) + "\n")
        own = identity(path)
        path.unlink()
        said = f"candidate {number} raises" if kind == "raises" else ""
        message = answer["error_message"] or ""
        with self.tally.lock:
            self.tally.verdicts[f"{kind}: {answer['verdict']}"] += 1
            self.tally.answers[f"t{number}"] = json.dumps(answer, sort_keys=True)
        if answer["task_id"] != f"t{number}" or answer["metadata"].get("source_sha256") != own or said not in message:
            self.tally.blame(f"{kind} {number} has the answer of another one: {answer}")
        elif answer["verdict"] not in wanted:
            self.tally.blame(f"{kind} {number}: {answer['verdict']} ({answer['error_code']}: {message[:300]})")

    # --- attacks on the server itself ----------------------------------------------

    def _raw(self, *parts: bytes) -> None:
        """Send bytes, and go without reading an answer."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=30) as stream:
            for part in parts:
                stream.sendall(part)

    def _head(self, length: int) -> bytes:
        return (
            f"POST /evaluate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        ).encode()

    def _large(self, _number: int, _kind: str) -> None:
        """A body of 50 MB, in spite of the limit."""
        self._raw(self._head(50 << 20), *[b"x" * (1 << 20)] * 50)

    def _endless(self, _number: int, _kind: str) -> None:
        """A body in chunks, without a length, longer than the limit."""
        head = self._head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        self._raw(head, *[b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"] * 12)

    def _cut(self, _number: int, _kind: str) -> None:
        """Half of a request."""
        self._raw(self._head(5000) + b'{"kernel_code": "')

    def _impatient(self, number: int, _kind: str) -> None:
        """A whole request, whose client goes before the answer; then it asks for it."""
        body = json.dumps(self._body(number, "unreadable")).encode()
        self._raw(self._head(len(body)) + body)
        self._candidate(number, "unreadable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What a server holds: its own memory, and the processes below it."""

    server_mb: float
    processes: int


def size_of(pid: int) -> Size:
    """Look at a server and all that it started."""
    (resident,) = re.findall(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
    return Size(server_mb=int(resident) / 1024, processes=sum(not one.dead for one in members(pid)))


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[tuple[int, int]]:
    """Start a server in `folder`; yields its port and its process."""
    problems = folder / "problems"
    problems.mkdir()
    (problems / "plus_one.py").write_text(PROBLEM)
    (folder / "pyproject.toml").write_text('[tool.kbench]\npaths = ["problems"]\n')
    port = free_port()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KBENCH_TOKEN": TOKEN, "KBENCH_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "kbench", "serve", "--devices", "cpu", "--lanes", "2", "--verify-only"]
    command += ["--port", str(port), "--queue", str(QUEUE)]
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stderr=log, start_new_session=True)
        try:
            while process.poll() is None:
                with contextlib.suppress(httpx.TransportError):
                    httpx.get(f"http://127.0.0.1:{port}/health")
                    break
                time.sleep(0.1)
            yield port, process.pid
        finally:
            process.terminate()
            process.wait(60)


def say(line: str) -> None:
    """Write a line at once, for who watches."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def free_port() -> int:
    """Return a port of this machine that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def counted(port: int) -> int:
    """Return how many tasks the server says it has answered."""
    return int(httpx.get(f"http://127.0.0.1:{port}/health").json()["answered"])


def load(arguments: argparse.Namespace, folder: Path) -> list[str]:
    """Run the load; print what was found, and return what must not be."""
    (folder / "clients").mkdir()
    with serving(folder) as (port, pid):
        clients = Clients(port, folder / "clients", arguments.judged, arguments.hanging, arguments.seed)
        tally, first = clients.tally, arguments.requests // 10
        began = time.monotonic()
        with ThreadPoolExecutor(arguments.clients) as threads:
            list(threads.map(clients.send, range(1, first + 1)))
            before = size_of(pid)
            say(f"after {first}: {before}, {time.monotonic() - began:.0f} s")
            for number, _ in enumerate(threads.map(clients.send, range(first + 1, arguments.requests + 1)), first + 1):
                if number % 1000 == 0:
                    say(f"after {number}: {size_of(pid)}, {time.monotonic() - began:.0f} s")
        took_s = time.monotonic() - began
        after = size_of(pid)
        ends = time.monotonic() + ENDS_WITHIN_S  # a worker that passed ends after its answer
        while after.processes > before.processes + MOST_PROCESSES and time.monotonic() < ends:
            time.sleep(0.1)
            after = size_of(pid)
        clients.check_kept()
        if (answered := counted(port)) != len(tally.answers):
            tally.blame(f"{answered} answers for {len(tally.answers)} tasks")
        health = httpx.get(f"http://127.0.0.1:{port}/health").json()
        if health["queue_status"] != {"pending": 0, "processing": 0}:
            tally.blame(f"work is left: {health}")
    log = (folder / "server.log").read_text()
    if "Traceback" in log:
        tally.blame(f"the server wrote: {log[-2000:]}")
    if after.processes > before.processes + MOST_PROCESSES:
        tally.blame(f"{after.processes} processes are left, {before.processes} were there at first")
    if after.server_mb > before.server_mb + MOST_GROWTH_MB:
        tally.blame(f"the server grew from {before.server_mb:.0f} to {after.server_mb:.0f} MB")
    for verdict, number in sorted(tally.verdicts.items()):
        say(f"{verdict:32} {number:6}")
    say(
        f"{arguments.requests} requests by {arguments.clients} clients in {took_s:.0f} s; {len(tally.answers)} answers,"
        f" {tally.full} times the queue was full; {before} at first, {after} at last; {len(tally.wrong)} wrong"
    )
    return tally.wrong


def main() -> int:
    """Read the command line, run, and say what was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--judged", type=float, default=0.15, help="share of honest sources that reach a worker")
    parser.add_argument("--hanging", type=float, default=0.1, help="share of hostile ones that hang, flood or fork")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kbench-load-", ignore_cleanup_errors=True) as folder:
        wrong = load(arguments, Path(folder))
    for line in wrong[:20]:
        say(f"WRONG {line}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
