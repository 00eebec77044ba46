"""Threads that compute begin on a processor each, are pinned to none, and make a first call alike."""

import os
import subprocess
import sys
import threading

import pytest

from kbench.devices.compute_threads import ComputeThreads
from kbench.process.worker_start import STEADY_HOST

IN_A_FRESH_PROCESS = """
import os
from pathlib import Path
import torch
torch.set_num_threads(2)
from kbench.devices.compute_threads import ComputeThreads

def last_ran_on(thread):  # proc(5), stat, field 39
    return Path(f"/proc/self/task/{thread or os.getpid()}/stat").read_text().rpartition(")")[2].split()[36]

let_go, seen = os.sched_setaffinity, []

def watched(thread, where):
    if len(where) > 1 and not seen:
        seen.extend(map(last_ran_on, threads._threads))
    let_go(thread, where)

threads = ComputeThreads()
os.sched_setaffinity = watched
for _ in range(3):
    seen.clear()
    threads.spread()
    print(*seen)
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_each_thread_is_on_a_processor_of_its_own() -> None:
    found = subprocess.run(
        [sys.executable, "-c", IN_A_FRESH_PROCESS],
        env={**os.environ, **STEADY_HOST},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    where = [line.split() for line in found.stdout.splitlines()]
    assert [len(set(each)) for each in where] == [2, 2, 2]


def test_a_thread_that_a_solution_has_ended_is_left_out() -> None:
    threads = ComputeThreads()
    threads._threads.append(1)  # of another process, as a number that was given anew could be
    threads.spread()


def test_where_the_sandbox_forbids_to_move_others_the_calling_thread_alone_is(monkeypatch) -> None:
    moved = []

    def only_oneself(thread: int, _where: set[int]) -> None:
        if thread:
            raise PermissionError(1, "Operation not permitted")
        moved.append(thread)

    monkeypatch.setattr(os, "sched_setaffinity", only_oneself)
    threads = ComputeThreads()
    threads.spread()
    assert moved == [0, 0]


def test_threads_of_others_are_not_moved() -> None:
    asleep = threading.Event()
    thread = threading.Thread(target=asleep.wait)
    thread.start()
    assert thread.native_id not in ComputeThreads()._threads
    asleep.set()
    thread.join()


FIRST_CALLS = """
import os, numpy, torch
from kbench.devices.backend import backend

x = torch.from_numpy(numpy.linspace(0.01, 0.3, 82_944, dtype="float32"))
backend("cpu").settle()
for _ in range(60):
    if not (child := os.fork()):
        torch.mm(torch.ones(288, 288), torch.ones(288, 288))  # starts the threads
        os._exit(not torch.equal(torch.tanh(x), torch.tanh(x)))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_two_threads_make_the_first_call_of_a_vector_function_as_one_would() -> None:
    """Without `settle` 8 of 300 first calls of `tanh` differed from the second: this script with more processes."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_CALLS], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.split() == ["0"] * 60
