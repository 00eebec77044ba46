"""The process boundary: start a child, talk to it under a deadline, learn how it died, kill all of it."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from kbench.core import traces
from kbench.core.model import Status
from kbench.process.channel import Channel, DeadlineError, Message, PeerGoneError, WireError, field
from kbench.process.child_error import STARVED, ChildError, explain_exit, reported
from kbench.process.forked import Fork
from kbench.process.observed import Observed
from kbench.sandbox import process_tree, rungs
from kbench.sandbox.namespaces import Surroundings
from kbench.sandbox.process_table import ClosedCensus, members

LOG_TAIL_BYTES = 64 << 10
WATCHDOG_INTERVAL_S = 0.1
DEATH_GRACE_S = 5.0
SHOWN_LOG_LINES = 40
JUDGE = "kbench.judge.start"
WORKER = "kbench.worker.main"
TOOL_ORDERS = "KBENCH_TOOL"
"""Environment variable of a worker below compute-sanitizer or ncu: the tool's command line, the rung, its folders."""
MAX_TASKS = 2 * rungs.MAX_PROCESSES
"""Processes and threads of one tree."""
FORKS_OF_NURSERY = 3
"""At most: supervisor, init of the namespaces, worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Start of a child: the module to run, its environment and folder, and the rung that locks it in."""

    module: str
    environment: Mapping[str, str]
    folder: Path
    rung: rungs.Rung
    surroundings: Surroundings | None = None
    memory_limit_bytes: int | None = None

    def order(self) -> Message:
        """Return what a nursery must know to fork such a child; a judge gets its environment on its own channel."""
        if self.module == JUDGE:
            return {"module": JUDGE}
        return {
            "module": self.module,
            "environment": dict(self.environment),
            "folder": str(self.folder),
            "rung": int(self.rung),
            "surroundings": self.surroundings.to_json() if self.surroundings is not None else "",
        }


class ChildState(StrEnum):
    """States of a child."""

    STARTING = "starting"
    """It has not answered yet."""
    READY = "ready"
    STOPPED = "stopped"
    """Its whole tree is kept stopped."""
    GONE = "gone"
    """This process has killed it."""


STARTING, READY, STOPPED, GONE = ChildState
NEXT = {STARTING: {READY, STOPPED, GONE}, READY: {STOPPED, GONE}, STOPPED: {STARTING, READY, GONE}, GONE: {GONE}}
"""States that may follow a state. Another thread may have ended a child meanwhile: it stays GONE."""


class Child:
    """A child process with a private channel. Its stdout and stderr are drained into a bounded log.

    It is a new program (`launch.module`), a fork of a nursery that does this module's part, or, `begun` with a channel,
    a fork of this process.
    """

    def __init__(self, launch: Launch, nursery: "Child | None" = None, begun: tuple[Fork, socket.socket] | None = None):
        self.state = STARTING
        self._nursery = nursery
        self._forking = threading.Lock()
        self._process: subprocess.Popen[bytes] | Fork
        if begun is not None:
            self._process, ours = begun
        else:
            ours, theirs = socket.socketpair()
            self._process = _execute(launch, theirs) if nursery is None else nursery._fork(launch, theirs)  # noqa: SLF001
            theirs.close()
        self.channel = Channel(ours)
        self._sequence = 0
        self._killed_because: tuple[Status, str] | None = None
        self._kills_before = system_kills()
        self.announced: frozenset[str] = frozenset()  # by a builder: `extension` or `program`
        self.observed = Observed()
        """Reports of the process about what it reads and starts."""
        self.woken_ns = 0
        """Time at which it was last continued (`time.perf_counter_ns`), before it could run."""
        self._closed: ClosedCensus | None = None
        self._excused_at: float | None = None
        self._excused_before_s = 0.0
        self._log = _Log()
        assert self._process.stdout is not None, "stdout is a pipe"
        self._drain = threading.Thread(target=self._log.drain, args=(self._process.stdout,), daemon=True)
        self._drain.start()
        if launch.memory_limit_bytes is not None:
            self.watch_memory(launch.memory_limit_bytes)

    @property
    def pid(self) -> int:
        """The pid of the child, or of the wrapper that leads its namespaces."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """True once the child has ended."""
        return self._process.poll() is not None

    @property
    def _is_starved(self) -> bool:
        """True if the system killed processes for lack of memory while the child lived, perhaps this one."""
        return system_kills() > self._kills_before

    @property
    def log(self) -> str:
        """The tail of what the child printed."""
        return self._log.text()

    def request(
        self,
        message: Message,
        *,
        timeout_s: float,
        fds: Sequence[int] = (),
        extend: Callable[[Message], float | None] | None = None,
    ) -> Message:
        """Send a request and return its answer: the message that carries the same number.

        A message with a `progress` key instead is handed to `extend`, which may return a new time limit from now on.
        An answer with an `error` key is raised as ChildError, as are death, silence and nonsense.
        """
        deadline = time.monotonic() + timeout_s
        self.post(message, fds)
        while "progress" in (answer := self.hear(deadline - time.monotonic(), timeout_s)) and extend is not None:
            longer = extend(answer)
            deadline = deadline if longer is None else time.monotonic() + longer
        return answer

    def post(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Send a request whose answer `hear` returns. Raises ChildError."""
        self._sequence += 1
        try:
            self.channel.send({**message, "n": self._sequence}, fds)
        except DeadlineError as error:
            raise ChildError(Status.CALL_TIMEOUT, "the process does not read", self.log) from error
        except PeerGoneError as error:
            raise self.death() from error

    def hear(self, timeout_s: float, named_s: float | None = None) -> Message:
        """Return the next message about the present request; `named_s` is the time limit to name where none comes.

        An answer with an `error` key is raised as ChildError, as are death, silence and nonsense.
        """
        answer = self.receive(timeout_s, named_s)
        if "error" in answer:
            raise reported(answer, self.log)
        return answer

    def receive(self, timeout_s: float, named_s: float | None = None) -> Message:
        """Return the next message about the present request, also one with an `error` key. Raises ChildError."""
        try:
            return self._answer(time.monotonic() + timeout_s)
        except WireError as error:
            raise ChildError(Status.PROTOCOL_ERROR, f"the process answered nonsense: {error}", self.log) from error
        except DeadlineError as error:
            limit_s = timeout_s if named_s is None else named_s
            raise ChildError(
                Status.CALL_TIMEOUT, f"no answer within {limit_s:{'.2g' if limit_s < 10 else '.0f'}} s", self.log
            ) from error
        except PeerGoneError as error:
            raise self.death() from error

    def _answer(self, deadline: float) -> Message:
        """Receive the next message about the present request. Raises WireError for one about another."""
        before_s = self._excused_s()
        while True:
            left_s = deadline + self._excused_s() - before_s - time.monotonic()
            try:
                answer = self.channel.receive(max(0.0, left_s))
                break
            except DeadlineError:
                if deadline + self._excused_s() - before_s <= time.monotonic():
                    raise
        if field(answer, "n", int) != self._sequence:
            raise WireError("an answer to a request that was not made")
        if self.state is STARTING:
            self._become(READY)
        self.announced |= {"extension", "program"} & {str(answer.get("progress"))}
        if "observed" in answer:
            self.observed.add(answer["observed"])
        return answer

    def _fork(self, launch: Launch, link: socket.socket) -> Fork:
        """Ask this child, a nursery, for a fork of it."""
        reader, output = os.pipe()
        reports, writer = os.pipe()
        try:
            with self._forking:
                self.channel.send(launch.order(), [output, link.fileno(), writer])
        except PeerGoneError:
            pass  # it has ended, and the fork with it
        except DeadlineError:
            self.kill()  # it may have half of a message
        finally:
            os.close(output)
            os.close(writer)
        return Fork(reports, reader)

    def death(self) -> ChildError:
        """Explain the end of a child that closed its channel. One that never answered has heard of no solution."""
        code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(DEATH_GRACE_S)
            self._drain.join(1.0)
        if isinstance(self._process, Fork) and self._process.is_lost:
            log = self._nursery.log if self._nursery is not None else ""
            reason = "the process that workers are forks of ended, or could not fork"
            return ChildError(Status.HARNESS_ERROR, reason, log)
        if self._killed_because is not None:
            return ChildError(*self._killed_because, self.log)
        status, reason = explain_exit(code, self.log, starved=self._is_starved)
        return ChildError(Status.HARNESS_ERROR if self.state is STARTING else status, reason, self.log)

    def finish(self, timeout_s: float) -> bool:
        """Close the channel, which asks the child to end; return whether it ended in time."""
        self.channel.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """Kill the child and everything that it ever started; return when nothing of it is left.

        One that is not born yet has heard of no solution, and ends by itself when it finds its channel closed.
        """
        self._become(GONE)
        if not isinstance(self._process, Fork) or self._process.is_born:
            process_tree.kill_tree(self.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(DEATH_GRACE_S)
            self._drain.join(1.0)
        self.channel.close()

    @contextlib.contextmanager
    def stopped(self, *, excused: bool = False) -> Any:
        """Keep the whole tree stopped (SIGSTOP) for the length of a `with` block.

        Yields the StoppedTree. Another thread that waits for an answer may go on waiting: `excused` is time that counts
        against no limit.
        Raises ChildError where some of it cannot be stopped; where it ran all the same, it is killed.
        """
        before, tree = self.state, None
        self._become(STOPPED)
        self._excused_at = time.monotonic() if excused else None
        try:
            if (tree := process_tree.stop_tree(self.pid, self._closed)) is None:
                raise ChildError(*self._broken("its processes could not be stopped between two calls"), self.log)
            yield tree
            if tree.has_run():
                why = self._kill_because(*self._broken("its processes ran on while they were stopped"))
                raise ChildError(*why, self.log)
        finally:
            self._become(before)
            self._excused_before_s, self._excused_at = self._excused_s(), None
            if tree is not None:
                self.woken_ns = tree.go_on()

    def _become(self, state: ChildState) -> None:
        if self.state is not GONE:
            assert state in NEXT[self.state], f"a child that is {self.state} does not become {state}"
            self.state = state

    def _broken(self, reason: str) -> tuple[Status, str]:
        """Return what is wrong with a tree that cannot be kept stopped: one that the system kills seems to run."""
        return (Status.OUT_OF_MEMORY, STARVED) if self._is_starved else (Status.PROTOCOL_ERROR, reason)

    def _excused_s(self) -> float:
        """Return for how long it has been stopped and excused so far."""
        since = self._excused_at
        return self._excused_before_s + (0.0 if since is None else time.monotonic() - since)

    def watch_memory(self, limit_bytes: int) -> None:
        """Kill all of the child once it holds more than this of the host's memory."""
        threading.Thread(target=self._watch_memory, args=(limit_bytes,), daemon=True).start()

    def _watch_memory(self, limit_bytes: int) -> None:
        while self._process.poll() is None:
            # A stopped tree cannot grow, and another one is being timed meanwhile.
            if self.state is not STOPPED and (excess := self._excess(limit_bytes)):
                self._kill_because(Status.OUT_OF_MEMORY, f"the process {excess} and was killed")
                return
            time.sleep(WATCHDOG_INTERVAL_S)

    def _kill_because(self, status: Status, reason: str) -> tuple[Status, str]:
        """Kill the tree; return the first cause: a tree that is killed while it is stopped seems to run."""
        self._killed_because = self._killed_because or (status, reason)
        process_tree.kill_tree(self.pid)
        return self._killed_because

    def _excess(self, limit_bytes: int) -> str:
        """Return in words which limit the tree exceeds; empty for none. The kernel's limit of tasks exempts root."""
        if tree_rss_bytes(self.pid, _rss_bytes(self._nursery.pid) if self._nursery is not None else 0) > limit_bytes:
            return f"used more than {limit_bytes / 2**30:.1f} GiB of host memory"
        tasks = sum(len(process_tree.threads(process.pid)) for process in members(self.pid))
        return f"started more than {MAX_TASKS} processes and threads" if tasks > MAX_TASKS else ""


def _execute(launch: Launch, link: socket.socket) -> "subprocess.Popen[bytes]":
    # -P: the folder that kbench is run in may be a stranger's checkout, with a `secrets.py` of its own.
    python = [sys.executable, "-P", "-m", launch.module, str(link.fileno())]
    return subprocess.Popen(
        rungs.command(launch.rung, python, launch.surroundings),
        env=dict(launch.environment),
        cwd=launch.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=[link.fileno()],
        start_new_session=True,
    )


def system_kills() -> int:
    """Return how many processes the system has killed for lack of memory since it started; 0 where it does not say."""
    with contextlib.suppress(OSError):
        counts = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
        return int(counts.get("oom_kill", 0))
    return 0


def tree_rss_bytes(pid: int, inherited_bytes: int = 0) -> int:
    """Return the host memory that the tree holds: anonymous and shared pages, files excluded.

    Shared pages count once per process that maps them, but for the `inherited_bytes` that each fork of a nursery shares
    with it: the worker, and what supervises it. Memory that no process maps (an unmapped memfd) and
    memory that the GPU driver pinned do not show here.
    """
    held = [_rss_bytes(process.pid) for process in members(pid)]
    return max(0, sum(held) - inherited_bytes * min(len(held), FORKS_OF_NURSERY))


def _rss_bytes(pid: int) -> int:
    # A thread that has ended knows nothing of the memory that it shared: the first living one does.
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - a name each
    except OSError:  # the process has ended
        return 0
    for thread in threads:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/task/{thread}/status").read_text().splitlines()
            held = [int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon:", "RssShmem:"))]
            if held:
                return sum(held)
    return 0


class _Log:
    """The last LOG_TAIL_BYTES of a stream, however much comes."""

    def __init__(self) -> None:
        self._tail = bytearray()
        self._dropped = 0
        self._lock = threading.Lock()

    def drain(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):
            while chunk := os.read(stream.fileno(), 1 << 16):
                with self._lock:
                    self._tail += chunk
                    self._dropped += max(0, len(self._tail) - LOG_TAIL_BYTES)
                    del self._tail[:-LOG_TAIL_BYTES]

    def text(self) -> str:
        with self._lock:
            tail, dropped = bytes(self._tail), self._dropped
        text = tail.decode(errors="replace")
        lines = [line for line in traces.without_machinery(text.splitlines()) if line.strip()]
        head = [f"[{dropped} bytes before this]"] if dropped else []
        return "\n".join([*head, *traces.significant_lines(lines, SHOWN_LOG_LINES)])
