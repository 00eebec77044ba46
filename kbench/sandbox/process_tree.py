"""A process and all that it starts: supervise it, stop it, weigh it, kill it.

`supervise` turns a process into the supervisor of an untrusted one, as does `main`, which `sandbox.command` starts in
an interpreter without packages: the parent to which every daemonised grandchild falls back (a
subreaper, or the init of a PID namespace), so that the tree below it is complete at any time. It dies with whoever
started it, takes the tree along, and ends the way that the untrusted process ended. Standard library only.
"""

import contextlib
import ctypes
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kbench.sandbox import namespaces
from kbench.sandbox.namespaces import Surroundings

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36

EXIT_NO_NAMESPACES = 125
EXIT_CANNOT_START = 127
POLL_INTERVAL_S = 0.005
STOP_LIMIT_S = 2.0
"""A thread that is deep in the kernel (the GPU driver, a disk) stops when it comes out, which nobody can hurry."""
ENDED = (b"Z", b"X")
AT_REST = (b"T", b"t", *ENDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One line of the process table."""

    pid: int
    parent: int
    session: int
    dead: bool
    """A zombie: killed or ended, waiting for its parent to notice; not one whose first thread alone has ended."""
    stopped: bool = False


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl({option}): {os.strerror(ctypes.get_errno())}")


def become_subreaper() -> None:
    """Let orphans among this process's descendants become its children rather than those of init."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


_strangers: frozenset[tuple[int, int]] = frozenset()
"""Pid and inode of each process that was seen not to descend from this one, which none of them ever will.

A machine has hundreds, reading one takes as long as listing a dozen, and a worker is stopped around every timed call.
The inode tells a pid that was given away again.
"""


def processes() -> dict[int, Process]:
    """Return the process table of this PID namespace, by pid, without those that are known to be strangers."""
    global _strangers  # noqa: PLW0603 - what is known of the whole machine
    table, known, inodes = {}, _strangers, {}
    with os.scandir("/proc") as entries:
        for entry in entries:
            if not entry.name.isdigit():
                continue
            pid, inode = int(entry.name), entry.inode()
            inodes[pid] = inode
            if (pid, inode) not in known and (process := _read_process(pid)) is not None:
                table[pid] = process
    _strangers = frozenset(
        (pid, inode)
        for pid, inode in inodes.items()
        if (pid, inode) in known or (pid in table and _is_stranger(pid, table, inodes, known))
    )
    return table


def _is_stranger(
    pid: int, table: dict[int, Process], inodes: dict[int, int], known: frozenset[tuple[int, int]]
) -> bool:
    """Return whether a process's ancestors lead past this process: to init, the kernel, or another stranger.

    A parent that ended while the table was read proves nothing: its children have another one by now.
    """
    own = os.getpid()
    while pid in table and pid != own:
        pid = table[pid].parent
    return pid == 0 or (pid, inodes.get(pid, 0)) in known


def _read_process(pid: int, place: str = "") -> Process | None:
    # Read without pathlib and io: a worker is stopped around every timed call of the reference.
    try:
        descriptor = os.open(place or f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        text = os.read(descriptor, 4096)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    # The command's name may itself hold spaces and brackets: the fields begin after the last bracket.
    fields = text[text.rindex(b")") + 2 :].split(maxsplit=18)
    state, parent, session, threads = fields[0], int(fields[1]), int(fields[3]), int(fields[17])
    if session < 0:
        # Half released by the kernel, which shows no parent any more: it would seem to descend from nobody.
        return None
    dead = state in ENDED and threads <= 1
    return Process(pid=pid, parent=parent, session=session, dead=dead, stopped=state in AT_REST)


def members(pid: int) -> list[Process]:
    """Return the living processes of the tree of `pid`: itself, its descendants, what is left of its session.

    Only descendants of the calling process count, so that a recycled pid never harms a stranger.
    """
    table = processes()
    own = _below(table, os.getpid()) | {os.getpid()}
    roots = [p.pid for p in table.values() if p.pid in own and pid in (p.pid, p.session)]
    found = set(roots).union(*(_below(table, root) for root in roots))
    return [table[p] for p in sorted(found) if not table[p].dead]


def _below(table: dict[int, Process], root: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    stack = [root]
    while stack:
        fresh = [pid for pid in children.get(stack.pop(), ()) if pid not in found]
        found.update(fresh)
        stack.extend(fresh)
    return found


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
        while below := [p.pid for p in members(pid) if p.pid != pid]:
            seen.update(below)
            # Stopping before killing keeps a fork bomb from outrunning the sweep.
            _signal(below, signal.SIGSTOP)
            _signal(below, signal.SIGKILL)
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_INTERVAL_S)
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


def stop_tree(pid: int) -> bool:
    """Stop every process of the tree (SIGSTOP) and wait until all its threads rest; `continue_tree` undoes it.

    Return whether all are stopped within STOP_LIMIT_S. The signal is only on its way when kill(2)
    returns, and another process of the tree may undo it: it is sent until nothing moves.
    """
    stopped: set[int] = set()
    while fresh := {p.pid for p in members(pid)} - stopped:
        _signal(fresh, signal.SIGSTOP)
        stopped |= fresh
    deadline = time.monotonic() + STOP_LIMIT_S
    while moving := {p for p in stopped if not _rests(p)}:
        if time.monotonic() > deadline:
            return False
        time.sleep(0)
        _signal(moving, signal.SIGSTOP)
    return True


def _rests(pid: int) -> bool:
    """Return whether no thread of a process runs."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - a worker is stopped around every timed call
    except OSError:
        return True
    states = (_read_process(int(thread), f"/proc/{pid}/task/{thread}/stat") for thread in threads)
    return all(state is None or state.stopped for state in states)


def continue_tree(pid: int) -> None:
    """Let every process of a stopped tree go on."""
    _signal((p.pid for p in members(pid)), signal.SIGCONT)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _reap(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def supervise(mode: str, work: Callable[[], None], surroundings: Surroundings | None, started_by: int) -> None:
    """Have a child of this process do `work`, as a `plain` one or within new `namespaces`; end as it ends.

    Within namespaces it sees `surroundings` of its own, where there are any. It ends with the process that started it,
    whose pid that one told: it may have ended before anybody could watch it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    starter = watch(started_by)
    if os.getppid() != started_by:
        os._exit(EXIT_CANNOT_START)
    if mode == "plain":
        become_subreaper()
        status = _lead(work, starter)
        _kill_descendants()
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


def _kill_descendants() -> None:
    while below := [p.pid for p in members(os.getpid()) if p.pid != os.getpid()]:
        _signal(below, signal.SIGSTOP)
        _signal(below, signal.SIGKILL)
        time.sleep(POLL_INTERVAL_S)


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
