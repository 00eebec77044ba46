"""The process table: what lives below a process, whether a count of it can have missed anything, and its memory.

Standard library only.
"""

import contextlib
import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

from kbench.sandbox import libc

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


_unrelated: frozenset[tuple[str, int]] = frozenset()
"""Pid and inode of each process known not to descend from this one; that cannot change.

A machine has hundreds of them. Reading one takes as long as listing twelve, and a worker is stopped before every timed
call, so they are read once. The inode differs where a pid was used again.
"""


def processes() -> dict[int, Process]:
    """Return the process table of this PID namespace, by pid, without those known to be unrelated to this one."""
    return _listed()[0]


def _listed() -> tuple[dict[int, Process], bool]:
    """Return the table, and whether all that were listed could be read: one that ended meanwhile may have a child."""
    global _unrelated  # noqa: PLW0603 - what is known of the whole machine
    with os.scandir("/proc") as entries:
        listed = {(entry.name, entry.inode()) for entry in entries if entry.name.isdigit()}
    known = _unrelated & listed
    unknown = listed - known
    found = [process for name, _ in unknown if (process := read_process(int(name))) is not None]
    table = {process.pid: process for process in found}
    old = {int(name) for name, _ in known}
    new = {(name, inode) for name, inode in unknown if int(name) in table and _is_unrelated(int(name), table, old)}
    _unrelated = known | new
    return table, len(table) == len(unknown)


def _is_unrelated(pid: int, table: dict[int, Process], known: set[int]) -> bool:
    """Return whether a process's ancestors lead past this process: to init, the kernel, or another unrelated process.

    A parent that ended while the table was read proves nothing: its children have another one by now.
    """
    own = os.getpid()
    while pid in table and pid != own:
        pid = table[pid].parent
    return pid == 0 or pid in known


def read_process(pid: int) -> Process | None:
    """Read the line of a process; None if it has ended."""
    fields = _fields(f"/proc/{pid}/stat")
    if not fields:
        return None
    state, parent, session, threads = fields[0], int(fields[1]), int(fields[3]), int(fields[17])
    if session < 0:
        # Half released by the kernel, which shows no parent any more: it would seem to descend from nobody.
        return None
    return Process(pid=pid, parent=parent, session=session, dead=state in ENDED and threads <= 1)


def is_at_rest(place: str) -> bool:
    """Return whether the process or thread whose `stat` file this is has stopped or ended."""
    fields = _fields(place)
    return not fields or fields[0] in AT_REST


def _fields(place: str) -> list[bytes]:
    """Return the fields of a `stat` file that follow the command's name; none of a process that has ended.

    Read without pathlib and io: a worker is stopped around every timed call of the reference.
    """
    try:
        descriptor = os.open(place, os.O_RDONLY)
    except OSError:
        return []
    try:
        text = os.read(descriptor, 4096)
    except OSError:
        return []
    finally:
        os.close(descriptor)
    # The name may itself hold spaces and brackets: the fields begin after the last bracket.
    return text[text.rindex(b")") + 2 :].split(maxsplit=18)


def members(pid: int) -> list[Process]:
    """Return the living processes of the tree of `pid`: itself, its descendants, what is left of its session.

    Only descendants of the calling process count, so that a recycled pid never harms an unrelated process. The session
    that it lives in itself is not what is left of a tree below it.
    """
    return [process for process in _tree(pid, processes()) if not process.dead]


def _tree(pid: int, table: dict[int, Process]) -> list[Process]:
    own = _below(table, os.getpid()) | {os.getpid()}
    lives_in = os.getsid(0)
    roots = [p.pid for p in table.values() if p.pid in own and (p.pid == pid or p.session == pid != lives_in)]
    found = set(roots).union(*(_below(table, root) for root in roots))
    return [table[p] for p in sorted(found)]


class Census:
    """The living processes of a tree, counted again and again.

    A process that forks and ends repeatedly may begin after the list is made and end before it is read. A count is
    therefore `complete` only if no process has ended since the count before.
    """

    def __init__(self, pid: int):
        self._pid = pid
        self.ended: set[int] = set()
        """Processes that have ended and that nobody has waited for, at the last count."""
        self.complete = False

    def living(self) -> set[int]:
        """Count, and return their pids."""
        table, complete = _listed()
        tree = _tree(self._pid, table)
        dead = {process.pid for process in tree if process.dead}
        self.complete, self.ended = complete and dead <= self.ended, dead
        return {process.pid for process in tree} - dead


class ClosedCensus:
    """The living processes of a tree that starts none any more: they are known, and need not be looked for.

    To list the processes of a machine twice took half of the time in which a tree was stopped (docs/adr/0020).
    """

    complete = True
    ended: frozenset[int] = frozenset()

    def __init__(self, pid: int):
        self._parents = {process.pid: process.parent for process in members(pid)}

    def holds(self) -> bool:
        """Return whether all are still there, each below the same parent: a number may be given to another one."""
        found = ((read_process(pid), parent) for pid, parent in self._parents.items())
        return bool(self._parents) and all(
            process is not None and process.parent == parent for process, parent in found
        )

    def living(self) -> set[int]:
        """Return their pids."""
        found = (read_process(pid) for pid in self._parents)
        return {process.pid for process in found if process is not None and not process.dead}


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


class _Piece(ctypes.Structure):
    """Address and length of some bytes (`struct iovec`)."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def read_into(target: int, pid: int, address: int, nbytes: int) -> None:
    """Copy bytes of a stopped process to this one's address `target`.

    The kernel lets a process read those below it, and those in a user namespace of its own (process_vm_readv(2)).
    Raises OSError: EPERM or ENOSYS where that is forbidden, as in some containers; EFAULT where nothing that can be
    read lies there.
    """
    done = 0
    while done < nbytes:  # a call copies 2 GB at most
        mine, theirs = _Piece(target + done, nbytes - done), _Piece(address + done, nbytes - done)
        one = ctypes.c_ulong(1)
        done += libc.call(
            "process_vm_readv", pid, ctypes.byref(mine), one, ctypes.byref(theirs), one, ctypes.c_ulong(0)
        )


def find_in_tree(pid: int, inner_pid: int) -> int | None:
    """Return the process of the tree of `pid` whose pid in the innermost PID namespace is `inner_pid`."""
    for process in members(pid):
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            numbers = next((line.split()[1:] for line in lines if line.startswith("NSpid:")), [str(process.pid)])
            if numbers[-1] == str(inner_pid):
                return process.pid
    return None
