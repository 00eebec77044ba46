"""The process table (strangers are read once, nothing of one's own is taken for one), and processes hard to stop."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from waiting import PATIENCE_S, wait_until

from kbench.process.child import tree_rss_bytes
from kbench.sandbox import process_table, process_tree

OWN = os.getpid()


def table(**parents: int) -> dict[int, process_table.Process]:
    pids = {int(name.removeprefix("p")): parent for name, parent in parents.items()}
    return {pid: process_table.Process(pid=pid, parent=parent, session=pid, dead=False) for pid, parent in pids.items()}


@pytest.mark.parametrize(
    ("parents", "known", "stranger"),
    [
        ({"p31": 30, "p30": 1, "p1": 0}, set(), True),
        ({"p31": 2, "p2": 0}, set(), True),
        ({"p31": 30}, {30}, True),
        ({"p31": 30, "p30": OWN, f"p{OWN}": 1, "p1": 0}, set(), False),
        # The parent ended while the table was read: the child belongs to somebody else by now, perhaps to us.
        ({"p31": 30}, set(), False),
    ],
)
def test_unrelated_processes(parents, known, stranger) -> None:
    assert process_table._is_unrelated(31, table(**parents), known) is stranger


@contextlib.contextmanager
def running(code: str, said: bytes = b"on") -> Iterator[subprocess.Popen[bytes]]:
    """A program in a session of its own that has said so much; in the end all of it is killed."""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert child.stdout.read(len(said)) == said
        yield child
    finally:
        process_tree.kill_tree(child.pid)
        child.kill()
        child.wait()
        child.stdout.close()


FIRST_THREAD_ENDS = """
import ctypes, os, threading
held = bytearray(300 << 20)
counted = [0]
def count():
    os.write(1, b"on")
    while True:
        counted[0] += 1
threading.Thread(target=count).start()
ctypes.CDLL(None).syscall(60, 0)
"""


@pytest.fixture
def headless() -> Iterator[subprocess.Popen]:
    """A process whose first thread has ended while another one goes on: the kernel calls it a zombie."""
    with running(FIRST_THREAD_ENDS) as child:
        wait_until(lambda: b") Z " in Path(f"/proc/{child.pid}/stat").read_bytes())
        yield child


def spends(pid: int, within_s: float) -> bool:
    """Whether a process gets any time of a processor."""
    before = Path(f"/proc/{pid}/stat").read_text().split()[13]
    deadline = time.monotonic() + within_s
    while (same := Path(f"/proc/{pid}/stat").read_text().split()[13] == before) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not same


def test_a_process_lives_on_without_its_first_thread(headless) -> None:
    assert [process.pid for process in process_table.members(headless.pid)] == [headless.pid]
    assert 300 << 20 < tree_rss_bytes(headless.pid) < 600 << 20
    assert spends(headless.pid, 60.0)
    tree = process_tree.stop_tree(headless.pid)
    assert tree
    assert not spends(headless.pid, 0.3)
    tree.go_on()
    assert process_tree.kill_tree(headless.pid) == 0
    assert headless.wait(60) == -signal.SIGKILL


SLEEPS = """
import os, threading, time
for _ in range(3):
    threading.Thread(target=time.sleep, args=(60,)).start()
os.write(1, b"on")
"""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen]:
    """A process with three more threads, that sleep."""
    with running(SLEEPS) as child:
        yield child


def test_a_tree_that_starts_no_process_is_stopped_without_a_list_of_all(sleeper, monkeypatch) -> None:
    closed = process_table.ClosedCensus(sleeper.pid)
    monkeypatch.setattr(process_table, "_listed", lambda: pytest.fail("listed"))
    tree = process_tree.stop_tree(sleeper.pid, closed)
    assert tree is not None
    assert not tree.has_run()
    assert process_tree._rests(sleeper.pid)
    tree.go_on()
    wait_until(lambda: not process_tree._rests(sleeper.pid))


ATTEMPTS = 20
WITHIN_A_CALL = """
import mmap, os
values = mmap.mmap(-1, 256 << 20)
file = os.memfd_create("copy")
while True:
    os.write(1, b"on")
    os.pwrite(file, values, 0)
"""


@pytest.mark.parametrize(
    ("computed_ns", "living", "ended", "until_ns"),
    [
        (0, {7}, set(), 1_000),  # it sleeps: how long its threads take to stop is no work
        (300, {7}, set(), 1_300),
        (900, {7}, set(), 1_500),  # counted a tick late: it rested before
        (0, {7, 8}, set(), 1_500),
        (0, {7}, {8}, 1_500),
    ],
)
def test_a_stopped_tree_worked_for_what_it_computed_and_until_it_rested_at_most(
    monkeypatch, computed_ns, living, ended, until_ns
) -> None:
    monkeypatch.setattr(process_tree.time, "perf_counter_ns", lambda: 1_000)
    monkeypatch.setattr(process_tree, "_computed_ns", lambda _pid: 50 + computed_ns)
    request = process_tree.StopRequest({7: 50}, set())
    request.rested_ns = 1_500
    assert request.worked_until_ns(living, ended) == until_ns


def test_what_a_thread_does_to_the_end_of_its_call_of_the_kernel_is_part_of_its_work() -> None:
    """A copy of 256 MB, of which a signal to stop ends nothing."""
    with running(WITHIN_A_CALL) as child:
        longest_ns = 0
        for _ in range(ATTEMPTS):  # a busy machine lets a call end before the signal comes
            child.stdout.read(2)
            asked_ns = time.perf_counter_ns()
            tree = process_tree.stop_tree(child.pid)
            longest_ns = max(longest_ns, tree.worked_until_ns - asked_ns)
            tree.go_on()
            if longest_ns > 5e6:
                break
        assert longest_ns > 5e6


@pytest.mark.parametrize("change", ["another parent", "gone", "never seen"])
def test_a_closed_tree_that_is_not_what_it_was_is_looked_for(sleeper, monkeypatch, change) -> None:
    closed = process_table.ClosedCensus(sleeper.pid)
    assert closed.holds()
    if change == "gone":
        closed._parents[4_194_304] = 1
    elif change == "never seen":
        closed._parents.clear()
    else:
        closed._parents[sleeper.pid] = 1
    assert not closed.holds()
    listed: list[int] = []
    original = process_table._listed
    monkeypatch.setattr(process_table, "_listed", lambda: listed.append(1) or original())
    tree = process_tree.stop_tree(sleeper.pid, closed)
    assert listed
    tree.go_on()


def test_who_of_a_closed_tree_has_ended_is_not_stopped(sleeper) -> None:
    closed = process_table.ClosedCensus(sleeper.pid)
    sleeper.kill()
    wait_until(lambda: not closed.living())
    assert closed.holds(), "a zombie keeps its number"


WAKES_ITS_CHILD = """
import os, signal
child = os.fork()
os.write(1, b"on")
while True:
    if child:
        os.kill(child, signal.SIGCONT)
"""


def test_processes_that_wake_each_other_are_stopped_all_the_same() -> None:
    with running(WAKES_ITS_CHILD, b"onon") as child:
        for _ in range(20):
            tree = process_tree.stop_tree(child.pid)
            assert tree
            assert all(process_tree._rests(process.pid) for process in process_table.members(child.pid))
            tree.go_on()
        assert process_tree.kill_tree(child.pid) == 0


CHAIN = r"""
#include <sys/types.h>
#include <unistd.h>
#include <time.h>
int main(void) {
  time_t end = time(0) + 60;
  if (write(1, "on", 2) != 2) return 1;
  while (time(0) < end) if (fork()) _exit(0);
  return 0;
}
"""


@pytest.fixture(scope="module")
def chain(tmp_path_factory) -> Path:
    """A program of which each process forks the next and ends: none lives for as long as it takes to read the list."""
    folder = tmp_path_factory.mktemp("chain")
    (folder / "chain.c").write_text(CHAIN)
    subprocess.run(["cc", "-O1", "-o", folder / "chain", folder / "chain.c"], check=True)
    return folder / "chain"


@pytest.fixture
def running_chain(chain) -> Iterator[int]:
    """Its session. Orphans fall back to this process, as to a supervisor."""
    process_tree.become_subreaper()
    child = subprocess.Popen([chain], stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout.read(2) == b"on"
    done = threading.Event()

    def reap() -> None:
        while not done.wait(0.001):
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass

    reaper = threading.Thread(target=reap)
    reaper.start()
    yield child.pid
    process_tree.kill_tree(child.pid)
    done.set()
    reaper.join()
    process_tree.prctl(process_tree.PR_SET_CHILD_SUBREAPER, 0)


def forks(session: int, within_s: float) -> bool:
    """Whether a session has other processes after some time."""

    def now() -> set[int]:
        return {pid for pid, process in process_table.processes().items() if process.session == session}

    before = now()
    time.sleep(within_s)
    return bool(now() - before)


def test_who_forks_and_ends_all_the_time_is_stopped_or_said_to_go_on(running_chain) -> None:
    """A count of processes always missed the one that lived."""
    for _ in range(20):
        began = time.monotonic()
        tree = process_tree.stop_tree(running_chain)
        assert time.monotonic() - began < process_tree.STOP_LIMIT_S + PATIENCE_S
        if tree:
            assert not forks(running_chain, 0.05)
            tree.go_on()


def test_who_forks_and_ends_all_the_time_is_killed(running_chain) -> None:
    assert process_tree.kill_tree(running_chain) == 0
    time.sleep(0.1)
    assert not any(process.session == running_chain for process in process_table.processes().values())


def gone(pid: int) -> bool:
    """Whether a process has ended, even if nobody has waited for it."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := process_table.read_process(pid)) is not None and not found.dead:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def grandchild() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A process that sleeps, and its parent, which is a child of this process."""
    code = "import os, time\npid = os.fork()\nif pid: print(pid, flush=True)\ntime.sleep(600)"
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    pid = int(parent.stdout.readline())
    yield parent, pid
    parent.kill()
    parent.wait()
    parent.stdout.close()
    if not gone(pid):
        os.kill(pid, signal.SIGKILL)


def test_a_root_whose_parent_ends_meanwhile_is_not_left_stopped(grandchild, monkeypatch) -> None:
    parent, pid = grandchild
    send = process_tree._signal

    def and_end_the_parent(pids, number) -> None:
        send(pids, number)
        if number == signal.SIGSTOP:
            parent.kill()
            parent.wait()

    monkeypatch.setattr(process_tree, "_signal", and_end_the_parent)
    process_tree.kill_tree(pid)
    assert gone(pid)


SPIN = """
import os, threading
for _ in range(4):
    threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()
os.fork()
os.write(1, b"on")
while True:
    pass
"""


def running_threads(pid: int) -> list[str]:
    stats = [stat for p in process_table.members(pid) for stat in Path(f"/proc/{p.pid}/task").glob("*/stat")]
    states = [stat.read_bytes().rpartition(b")")[2].split()[0].decode() for stat in stats]
    return [state for state in states if state not in "Tt"]


def test_what_cannot_be_stopped_is_said(spinning, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(process_tree, "STOP_LIMIT_S", 0.05)
        patch.setattr(process_tree, "_signal", lambda _pids, _number: None)
        assert not process_tree.stop_tree(spinning)


def test_an_interrupt_leaves_nothing_stopped(spinning, grandchild, monkeypatch) -> None:
    send = process_tree._signal

    def and_interrupt(pids, number) -> None:
        send(pids, number)
        if number == signal.SIGSTOP:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(process_tree, "_signal", and_interrupt)
        for act, pid in ((process_tree.stop_tree, spinning), (process_tree.kill_tree, grandchild[1])):
            with pytest.raises(KeyboardInterrupt):
                act(pid)
    assert spends(spinning, 10.0)
    assert gone(grandchild[1])


@pytest.fixture
def spinning() -> Iterator[int]:
    """Two processes of five threads each, none of which ever waits."""
    with running(SPIN, b"onon") as child:
        yield child.pid


def test_when_a_tree_is_said_to_be_stopped_no_thread_of_it_runs_or_has_run(spinning) -> None:
    for _ in range(50):
        tree = process_tree.stop_tree(spinning)
        assert tree
        assert running_threads(spinning) == []
        assert not tree.has_run()
        tree.go_on()
    wait_until(tree.has_run)
    assert process_tree.stop_tree(spinning)
    assert tree.has_run(), "it ran since, and is stopped again"
    process_tree.kill_tree(spinning)
    assert not tree.has_run(), "it was killed"


MS = 1_000_000
BEFORE = {(7, 7): (10 * MS, 100), (7, 8): (20 * MS, 200)}


@pytest.mark.parametrize(
    ("now", "computed_ns", "living", "has_run"),
    [
        (BEFORE, 0, {7}, False),
        ({**BEFORE, (7, 8): (25 * MS, 200)}, 5 * MS, {7}, False),  # counted late
        ({**BEFORE, (7, 8): (25 * MS, 200)}, 0, {7}, False),  # late, and the process's time had it already
        ({**BEFORE, (7, 8): (20 * MS + 9_000, 201)}, 9_000, {7}, False),  # its last steps into sleep
        ({**BEFORE, (7, 8): (21 * MS, 201)}, 1 * MS, {7}, True),
        ({**BEFORE, (7, 8): (20 * MS + 9_000, 202)}, 9_000, {7}, True),  # it went on, and stopped again
        ({(7, 7): BEFORE[7, 7]}, 0, {7}, True),  # a thread ended
        ({**BEFORE, (7, 9): (60 * MS, 9)}, 60 * MS, {7}, True),  # one began
        (BEFORE, 60 * MS, {7}, True),  # one began and ended
        (BEFORE, 0, {7, 11}, True),  # a process began
        ({}, -30 * MS, set(), False),  # it was killed
    ],
)
def test_a_stopped_tree_has_run_whatever_of_it_did(monkeypatch, now, computed_ns, living, has_run) -> None:
    times, computed = iter([BEFORE, now]), iter([30 * MS, 30 * MS + computed_ns])
    monkeypatch.setattr(process_tree.StoppedTree, "_times", lambda _: next(times))
    monkeypatch.setattr(process_tree, "_computed_ns", lambda _: next(computed))
    monkeypatch.setattr(process_tree, "_rests", lambda _: True)
    tree = process_tree.StoppedTree(SimpleNamespace(living=lambda: living), {7}, 0)
    assert tree.has_run() is has_run


def test_a_stranger_is_never_killed():
    assert process_tree.kill_tree(os.getppid()) == 0
    assert process_table.members(1) == []


def test_the_leader_of_the_own_session_is_a_stranger():
    program = """
import os, subprocess
from kbench.sandbox import process_table, process_tree
child = os.fork()
if child == 0:
    sleeper = subprocess.Popen(["sleep", "60"])
    assert process_table.members(os.getppid()) == []
    assert process_tree.kill_tree(os.getppid()) == 0
    assert sleeper.poll() is None
    sleeper.kill()
    os._exit(0)
assert os.getsid(0) == os.getpid()
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", program], check=True, start_new_session=True, timeout=60)
