"""The page of flags between judge and worker: who opens, who says done, and what a worker can do to it."""

import contextlib
import ctypes
import mmap
import os
import threading
import time
from collections.abc import Iterator

import pytest

from kbench.process.gate_page import DONE, OPEN, PAGE_BYTES, Gate


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    with contextlib.suppress(AttributeError):
        made.close()


class Worker:
    """The other end, on a mapping of its own: what a device's queue does there."""

    def __init__(self, fd: int):
        self._page = mmap.mmap(os.dup(fd), PAGE_BYTES)
        self.words = (ctypes.c_uint32 * (PAGE_BYTES // 4)).from_buffer(self._page)

    def answer(self, number: int, after_s: float) -> threading.Thread:
        """Wait until a round is open, work for so long, then say that it is done."""

        def work() -> None:
            while self.words[OPEN] != number:
                time.sleep(0)
            time.sleep(after_s)
            self.words[DONE] = number

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread


def test_the_time_is_from_the_opening_to_the_flag(gate: Gate) -> None:
    worker = Worker(gate.fd)
    for after_s in (0.02, 0.05):
        number = gate.next_round()
        thread = worker.answer(number, after_s)
        time.sleep(0.05)  # who waits before the opening is not on the clock
        began = time.perf_counter()
        total_ns = gate.open_and_wait(60.0)
        ended = time.perf_counter()
        thread.join()
        assert after_s <= total_ns / 1e9 <= ended - began
        assert worker.words[OPEN] == worker.words[DONE] == number


def test_nobody_answers(gate: Gate) -> None:
    gate.next_round()
    started = time.monotonic()
    assert gate.open_and_wait(0.05) is None
    assert 0.05 <= time.monotonic() - started < 30


@pytest.mark.parametrize("done", [False, True])
def test_a_worker_that_says_more_is_asked_no_further(gate: Gate, done: bool) -> None:
    """Unless its flag is up by then: what it says is its answer."""
    worker = Worker(gate.fd)
    number = gate.next_round()

    def is_over() -> bool:
        worker.words[DONE] = number if done else 0
        return True

    started = time.monotonic()
    assert (gate.open_and_wait(60.0, is_over) is not None) is done
    assert time.monotonic() - started < 30


def test_rounds_are_counted_and_an_old_flag_ends_no_new_one(gate: Gate) -> None:
    worker = Worker(gate.fd)
    assert [gate.next_round(), gate.next_round()] == [1, 2]
    worker.words[DONE] = 1
    assert gate.open_and_wait(0.02) is None
    worker.words[DONE] = 2
    assert gate.open_and_wait(0.02) is not None


def test_it_is_closed_until_it_is_opened(gate: Gate) -> None:
    worker = Worker(gate.fd)
    gate.next_round()
    assert worker.words[OPEN] == 0
    gate.open()
    assert (worker.words[OPEN], worker.words[DONE]) == (1, 0)


@pytest.mark.parametrize("nbytes", [0, 1, PAGE_BYTES - 1, 2 * PAGE_BYTES])
def test_a_worker_cannot_resize_the_page(gate: Gate, nbytes: int) -> None:
    """A judge that reads a page which is gone is killed by SIGBUS."""
    with pytest.raises(PermissionError):
        os.ftruncate(gate.fd, nbytes)


def test_a_worker_keeps_its_page_when_the_judge_lets_go(gate: Gate) -> None:
    worker = Worker(gate.fd)
    gate.close()
    worker.words[DONE] = 5
    assert worker.words[DONE] == 5
