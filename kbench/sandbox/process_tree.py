"""A process and all that it starts: supervise the tree, stop it, measure its memory, kill it.

`supervise` turns a process into the supervisor of an untrusted one, as does `main`, which `sandbox.command` starts in
an interpreter without packages: the parent to which every daemonised grandchild falls back (a subreaper, or the init of
a PID namespace), so that the tree below it is complete at any time. When the process that started it dies, it kills the
tree and dies. It ends the way that the untrusted process ended. Standard library only.
"""

import contextlib
import ctypes
import math
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Collection, Iterable

from kbench.sandbox import libc, namespaces
from kbench.sandbox.namespaces import Surroundings
from kbench.sandbox.process_table import Census, ClosedCensus, is_at_rest, members, read_process

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36

EXIT_NO_NAMESPACES = 125
EXIT_CANNOT_START = 127
POLL_INTERVAL_S = 0.005
CPU_CLOCK = 2
"""Which of a process's clocks: its processor time, as the scheduler counts it (linux/posix-timers.h)."""
STOP_LIMIT_S = 2.0
"""A thread that is deep in the kernel (the GPU driver, a disk) stops when it comes out, which nobody can hurry."""
FALLS_ASLEEP_NS = 200_000
"""Chosen. Time that a tree may run once all its threads rest: the last steps into sleep, and interrupts in them."""
STARTS_TO_REST_AGAIN = 2
"""Smallest number of times that a continued thread gets a processor: to continue, and to stop again. A thread that is
preempted while it falls asleep gets one more; none of ten busy threads was in 3,000 stops (2 cores)."""
Times = dict[tuple[int, int], tuple[int, int]]
"""Time in ns that each thread has had of a processor, and how often it got one, by its process and its own number."""


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process. Raises OSError."""
    libc.call("prctl", option, ctypes.c_ulong(value), 0, 0, 0, called=f"prctl({option})")


def become_subreaper() -> None:
    """Let orphans among this process's descendants become its children rather than those of init."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def kill_tree(pid: int, limit_s: float = 10.0) -> int:
    """Kill the tree of `pid` (SIGKILL); return how many of its processes were still alive after `limit_s`.

    The root itself is left to its parent's wait(). It is stopped first and killed last, because as long as it
    exists every orphan of the tree falls back to it. It is killed in any case: also if this is interrupted, or if its
    parent ends meanwhile, so that it is no descendant any more.
    """
    deadline = time.monotonic() + limit_s
    is_own = any(p.pid == pid for p in members(pid))
    root = watch(pid) if is_own else None
    seen: set[int] = set()
    try:
        _signal([pid] if is_own else [], signal.SIGSTOP)
        seen = _kill_below(pid, deadline)
    finally:
        if root is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(root, signal.SIGKILL)
            os.close(root)
        _signal([p.pid for p in members(pid)], signal.SIGKILL)
    while (alive := members(pid)) and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL_S)
    _reap(seen)
    return len(alive)


def _kill_below(pid: int, deadline: float = math.inf) -> set[int]:
    """Kill all descendants of a process, until none is left or time is up; return their pids."""
    census, seen = Census(pid), set[int]()
    while (below := census.living() - {pid}) or not census.complete:
        seen |= below
        # Stopping before killing keeps a fork bomb from outrunning the sweep.
        _signal(below, signal.SIGSTOP)
        _signal(below, signal.SIGKILL)
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_INTERVAL_S)
    return seen


class StoppedTree:
    """A tree of which every process is stopped: until it goes on, none joins it."""

    def __init__(self, census: Census | ClosedCensus, pids: Iterable[int], worked_until_ns: int):
        self._census = census
        self._pids = tuple(pids)
        self._before = self._times()
        self._computed_before_ns = self._computed_ns()  # after the threads' times: then it has all that these have
        self.worked_until_ns = worked_until_ns
        """Time of the stop request (`time.perf_counter_ns`) plus the computing time after it: a thread in a system call
        continues to the end of that call."""

    def has_run(self) -> bool:
        """Return whether it has run since it was stopped: a timer of the kernel's can send it SIGCONT.

        A killed tree has no threads, so it has not run. Time of a thread without a new start was only counted late.
        Threads that began and ended in between are in no list; their time is in that of their process.
        """
        now = self._times()
        ended = self._before.keys() - now.keys()
        ran_ns = most_starts = 0
        unlisted_ns = self._computed_ns() - self._computed_before_ns
        for thread, (ns, starts) in now.items():
            ns_then, starts_then = self._before.get(thread, (0, 0))
            ran_ns += max(0, ns - ns_then) if starts > starts_then else 0
            most_starts = max(most_starts, starts - starts_then)
            unlisted_ns -= ns - ns_then
        computed = max(ran_ns, unlisted_ns) > FALLS_ASLEEP_NS or most_starts >= STARTS_TO_REST_AGAIN
        rests = all(_rests(process) for process in {process for process, _ in now})
        return bool(now) and (bool(ended) or computed or not rests or not self._census.living() <= {*self._pids})

    def go_on(self) -> int:
        """Let every process of it go on; return when, before any could (`time.perf_counter_ns`)."""
        woken_ns = time.perf_counter_ns()
        _signal(self._pids, signal.SIGCONT)
        return woken_ns

    def _times(self) -> Times:
        found = ((pid, read_process(pid)) for pid in self._pids)
        living = [pid for pid, process in found if process is not None and not process.dead]
        return {(pid, thread): _time(pid, thread) for pid in living for thread in threads(pid)}

    def _computed_ns(self) -> int:
        return sum(map(_computed_ns, self._pids))


def stop_tree(pid: int, closed: ClosedCensus | None = None) -> StoppedTree | None:
    """Stop every process of the tree (SIGSTOP) and wait until all its threads rest.

    Return None, and let all go on, where not all are stopped within STOP_LIMIT_S; after an interrupt they go on, too.
    """
    tree = None
    try:
        tree = _stopped(closed if closed is not None and closed.holds() else Census(pid))
    finally:
        if tree is None:
            _signal((p.pid for p in members(pid)), signal.SIGCONT)
    return tree


def _stopped(census: Census | ClosedCensus) -> StoppedTree | None:
    """Stop a tree; None where not all of it is stopped in time.

    The signal is only on its way when kill(2) returns, and another process of the tree may undo it or fork meanwhile:
    it is sent until all that there are have rested since before they were counted.
    """
    rested, sent = set[int](), None
    deadline = time.monotonic() + STOP_LIMIT_S
    while True:
        living = census.living()
        if census.complete and all(p in rested and _rests(p) for p in living):
            return StoppedTree(census, living, sent.worked_until_ns(living, census.ended) if sent is not None else 0)
        while moving := {p for p in living if not _rests(p)}:
            sent = sent or StopRequest({p: _computed_ns(p) for p in living}, census.ended)
            if time.monotonic() > deadline:
                return None
            _signal(moving, signal.SIGSTOP)
            time.sleep(0)
        if time.monotonic() > deadline:
            return None
        rested = living
        if sent is not None:
            sent.rested_ns = time.perf_counter_ns()


class StopRequest:
    """Computing time of each process of a tree when it was sent SIGSTOP."""

    def __init__(self, computed: dict[int, int], ended: Collection[int]):
        self._computed, self._ended = computed, frozenset(ended)
        self.rested_ns = self._at_ns = time.perf_counter_ns()

    def worked_until_ns(self, living: Collection[int], ended: Collection[int]) -> int:
        """Return the latest time at which they can have computed, by the time they ran since and by when they rested.

        Either bound alone is too large: time on another processor is counted a clock tick late, and threads that sleep
        take a while to stop. A process that has ended in between is not counted.
        """
        if set(living) != self._computed.keys() or not self._ended.issuperset(ended):
            return self.rested_ns
        since_ns = sum(_computed_ns(pid) - ns for pid, ns in self._computed.items())
        return min(self.rested_ns, self._at_ns + since_ns)


def _time(pid: int, thread: int) -> tuple[int, int]:
    """Return the time that a thread has had, and in how many slices; 0 where it has ended, or nobody counts."""
    with contextlib.suppress(OSError):
        descriptor = os.open(f"/proc/{pid}/task/{thread}/schedstat", os.O_RDONLY)
        try:
            ran, _waited, slices = map(int, os.read(descriptor, 100).split())
        finally:
            os.close(descriptor)
        return ran, slices
    return 0, 0


def _computed_ns(pid: int) -> int:
    """Return the time that all threads of a process have had together; 0 where it has ended, or nobody counts."""
    with contextlib.suppress(OSError):
        return time.clock_gettime_ns(~pid << 3 | CPU_CLOCK)
    return 0


def _rests(pid: int) -> bool:
    """Return whether no thread of a process runs."""
    return all(is_at_rest(f"/proc/{pid}/task/{thread}/stat") for thread in threads(pid))


def threads(pid: int) -> list[int]:
    """Return the threads of a process; none of one that has ended."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208 - around every timed call
    except OSError:
        return []


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _reap(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def supervise(mode: str, work: Callable[[], None], surroundings: Surroundings | None, started_by: int) -> None:
    """Run `work` in a child, as a `plain` process or within new `namespaces`, then end the way it ended.

    Within namespaces it sees `surroundings`, where given. It ends with the process that started it. That process passes
    its pid as `started_by`, because it may have ended before this one can watch it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    starter = watch(started_by)
    if os.getppid() != started_by:
        os._exit(EXIT_CANNOT_START)
    if mode == "plain":
        become_subreaper()
        status = _lead(work, starter)
        _kill_below(os.getpid())
    else:
        status = _lead_namespaces(work, starter, surroundings)
    _end_like(status)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, even while it is stopped; end now if that one has."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(EXIT_CANNOT_START)


def watch(pid: int) -> int | None:
    """Return a descriptor that becomes readable when `pid` ends, or None where the kernel has none."""
    with contextlib.suppress(OSError):
        return os.pidfd_open(pid)
    return None


def _lead(work: Callable[[], None], starter: int | None, report: int | None = None) -> int:
    """Start `work` and reap every orphan until it ends, or until the starter does; return its wait status."""
    wakeup = _wake_on_child_exit()
    child = os.fork()
    if child == 0:
        _begin(work)
    prctl(PR_SET_DUMPABLE, 0)
    _drop_descriptors(keep={*wakeup, starter, report})
    return _wait(child, wakeup[0], starter)


def _wake_on_child_exit() -> tuple[int, int]:
    """Return both ends of a pipe into which every SIGCHLD drops a byte."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader, writer


def _begin(work: Callable[[], None]) -> None:
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        work()
    except OSError as error:
        os.write(2, f"cannot be started: {error}\n".encode())
    finally:
        os._exit(EXIT_CANNOT_START)


def _drop_descriptors(keep: set[int | None]) -> None:
    """Close what was meant for the child: an open copy here would hide the child's death from its peer."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    close_descriptors(keep)


def close_descriptors(keep: set[int | None]) -> None:
    """Close all descriptors but those for standard input and output and the ones to `keep`."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) > 2 and int(name) not in keep:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _wait(child: int, wakeup: int, starter: int | None) -> int:
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    if starter is not None:
        poll.register(starter, select.POLLIN)
        # The tree is stopped between calls. Whose starter ends meanwhile must wake up to end the rest.
        prctl(PR_SET_PDEATHSIG, signal.SIGCONT)
    while True:
        for pid, status in _ended():
            if pid == child:
                return status
        ready = {fd for fd, _ in poll.poll()}
        if starter in ready:
            return signal.SIGKILL
        with contextlib.suppress(BlockingIOError):
            os.read(wakeup, 4096)


def _ended() -> Iterable[tuple[int, int]]:
    with contextlib.suppress(ChildProcessError):
        while (entry := os.waitpid(-1, os.WNOHANG))[0]:
            yield entry


def _lead_namespaces(work: Callable[[], None], starter: int | None, surroundings: Surroundings | None) -> int:
    try:
        namespaces.enter()
    except OSError as error:
        os.write(2, f"cannot create namespaces: {error}\n".encode())
        os._exit(EXIT_NO_NAMESPACES)
    reader, writer = os.pipe()
    wakeup = _wake_on_child_exit()
    init = os.fork()
    if init == 0:
        _be_init(work, writer, surroundings)
    os.close(writer)
    prctl(PR_SET_DUMPABLE, 0)
    _drop_descriptors(keep={*wakeup, starter, reader})
    status = _wait(init, wakeup[0], starter)
    _signal([init], signal.SIGKILL)
    # An init cannot die of its own signal, so it reports how its child ended.
    report = os.read(reader, 8) if os.WIFEXITED(status) else b""
    return int(report) if report else status


def _be_init(work: Callable[[], None], report: int, surroundings: Surroundings | None) -> None:
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # Here and not in the parent, which must go on seeing the process table that it is part of.
        namespaces.mount(surroundings)
        status = _lead(work, None, report)
        os.write(report, str(status).encode())
        os._exit(0)
    except OSError as error:
        os.write(2, f"cannot set up namespaces: {error}\n".encode())
    finally:
        os._exit(EXIT_NO_NAMESPACES)


def _end_like(status: int) -> None:
    if os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)


def main(started_by: str, mode: str, surroundings: str, *argv: str) -> None:
    """Run a command line under supervision, for the process with a pid; `surroundings` are JSON, or empty."""
    around = Surroundings.from_json(surroundings)
    supervise(mode, lambda: os.execvp(argv[0], argv), around, int(started_by))  # noqa: S606
