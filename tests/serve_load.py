"""Ask one server for many verdicts, a fifth of them on hostile code: `python tests/serve_load.py [REQUESTS] [LANES]`.

It starts `kbench serve` on the CPU, and has 64 clients ask. The disk of its state fills up at a third of the answers,
and gets room again; at two thirds the server is killed and started again. It fails on an answer that is lost, belongs
to another request, is wrong or changes, and prints the server's memory. It needs the right to mount.
"""

import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import commands
import httpx
from kill_campaign import fill
from tiny_corpus import problem, solution

from kbench.sandbox.process_table import members

CLIENTS, ANSWER_S = 64, 1800.0
DISK_BYTES, FULL_S = 24 << 20, 5.0
HOSTILE = {
    "exits": ("import os; os._exit(3)", "exited"),
    "crashes": ("import ctypes; ctypes.string_at(0)", "crashed"),
    "forks": ("import os\n        while True: os.fork()", "raised"),
    "fills": ("open('full', 'wb').write(bytes(1 << 26)); raise ValueError({number})", "raised"),
    "hangs": ("while True: pass", "total_timeout"),
    "prints": ("print('x' * (1 << 24)); raise ValueError({number})", "raised"),
}
HONEST = {"right": ("return 2 * x + 0 * {number}", "passed"), "wrong": ("raise ValueError({number})", "raised")}
TOKEN = "a-token-for-this-load"


def kind_of(number: int) -> tuple[str, str]:
    """Return the body and the status of a request: every fifth is hostile."""
    kinds = list((HOSTILE if number % 5 == 0 else HONEST).values())
    body, status = kinds[number // 5 % len(kinds)]
    return body.replace("{number}", str(number)), status


class Load:
    """The clients, and what came of their requests."""

    def __init__(self, count: int, port: int):
        self.left, self.faults, self.answers = iter(range(count)), Counter[str](), dict[int, dict]()
        self.url, self.lock = f"http://127.0.0.1:{port}", threading.Lock()

    def client(self) -> None:
        """Send requests, one after the other, until none is left."""
        with httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as client:
            while True:
                with self.lock:
                    number = next(self.left, None)
                if number is None:
                    return
                answer = self.answer(client, number)
                with self.lock:
                    self.answers[number] = answer
                    self.faults.update(self.wrong(number, answer))

    def answer(self, client: httpx.Client, number: int) -> dict:
        """Return the answer to a request, however often it takes."""
        body, _ = kind_of(number)
        request = {"task_id": f"t{number}", "reference_code": problem(), "kernel_code": solution(body)}
        request |= {
            "level": "task",
            "queue_timeout": ANSWER_S,
            **({"timeout": 3} if "while True: pass" in body else {}),
        }
        deadline = time.monotonic() + ANSWER_S
        while time.monotonic() < deadline:
            try:
                found = client.post("/evaluate", json=request, params={"wait": 30})
            except httpx.TransportError:  # it is started again
                time.sleep(0.2)
                continue
            if found.status_code == 200:
                return found.json()
            time.sleep(random.uniform(0.1, 1.0))
        return {}

    @staticmethod
    def wrong(number: int, answer: dict) -> list[str]:
        """Return what is wrong with an answer, in words."""
        body, status = kind_of(number)
        if not answer:
            return ["lost"]
        found = [] if answer["verdict"] == status else [f"{status} became {answer['verdict']}"]
        quoted = f"ValueError({number})" in body and str(number) not in str(answer["error_message"])
        return [*found, *(["mixed up"] if quoted or answer["task_id"] != f"t{number}" else [])]

    def changed(self) -> int:
        """Return how many answers are others when they are asked for again."""
        with httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as client:
            return sum(client.get(f"/results/t{n}").json() != answer for n, answer in self.answers.items())


def memory_mb(root: int) -> int:
    """Return the anonymous memory of a server and its nursery, without judges and workers, in MB."""
    near = [root, *(one.pid for one in members(root) if one.parent == root)]
    lines = [line for pid in near for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) >> 10


class Server:
    """`kbench serve` with its state on a small disk, which can be filled, killed and started again."""

    def __init__(self, folder: Path, lanes: int):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.folder, self.disk, self.lanes = folder, folder / "state", str(lanes)
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", self.disk], check=True)
        self.start()

    def start(self) -> None:
        """Start it; clients find it when it listens."""
        words = ["serve", "--verify-only", "--accept-references", "--lanes", self.lanes, "--port", str(self.port)]
        places = {"TMPDIR": self.folder / "tmp", "KBENCH_CACHE": self.folder / "cache", "CUDA_VISIBLE_DEVICES": ""}
        Path(places["TMPDIR"]).mkdir(exist_ok=True)
        names = {name: str(place) for name, place in places.items()} | {"KBENCH_TOKEN": TOKEN}
        self.running = commands.start(self.folder, *words, "--state", str(self.disk), **names)

    def fill(self) -> None:
        """Leave its state without room for some seconds."""
        fill(self.disk)
        time.sleep(FULL_S)
        (self.disk / "filler").unlink()

    def kill(self) -> None:
        """Kill it and start it again."""
        self.running.kill()
        commands.finish(self.running)
        self.start()

    def end(self) -> int:
        """End it as a user does; return what it leaves in the folder of temporary files."""
        self.running.send_signal(signal.SIGTERM)
        commands.finish(self.running)
        subprocess.run(["umount", "-l", self.disk], check=True)
        return len(list((self.folder / "tmp").iterdir()))


def main(count: int = 200, lanes: int = 2) -> None:
    """Run the load, and print what it came to."""
    folder = Path(tempfile.mkdtemp(prefix="load-"))
    server, began = Server(folder, lanes), time.monotonic()
    load = Load(count, server.port)
    threads = [threading.Thread(target=load.client, daemon=True) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    due = {count // 3: server.fill, 2 * count // 3: server.kill}
    memory: dict[int, int] = {}
    try:
        while any(thread.is_alive() for thread in threads):
            time.sleep(1.0)
            done = len(load.answers)
            for number in [number for number in due if number <= done]:
                due.pop(number)()
            memory[done * 10 // count] = memory_mb(server.running.pid)
        changed, spent_s = load.changed(), time.monotonic() - began
    finally:
        left = server.end()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{count} requests of {CLIENTS} clients in {spent_s:.0f} s; memory by tenths, MB: {[*memory.values()]}")  # noqa: T201
    print(f"faults {dict(load.faults)}, changed {changed}, left in TMPDIR {left}")  # noqa: T201
    sys.exit(bool(load.faults or changed or left))


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
