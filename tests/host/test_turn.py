"""Who computes on a device while compiling, and who goes first: real processes that queue for it."""

import contextlib
import subprocess
import sys
import threading
import time

import pytest
from waiting import PATIENCE_S, wait_until

from kbench.core.model import Status
from kbench.devices.admission import Admission
from kbench.host import turn
from kbench.host.turn import Turn
from kbench.process.child_error import ChildError

TIMES = """
import sys, time
from pathlib import Path
from kbench.devices.admission import Admission
sys.stdin.readline()
with Admission(uuid="GPU-1", folder=Path(sys.argv[1])).exclusive():
    print("has it", flush=True)
    sys.stdin.readline()
"""


class Compiling:
    """A child that is stopped and goes on, or cannot be stopped."""

    def __init__(self, *, stops=True):
        self._stops = stops
        self.stopped_now = threading.Event()
        self.times = 0

    @contextlib.contextmanager
    def stopped(self, *, excused):
        assert excused
        self.times += 1
        if not self._stops:
            raise ChildError(Status.PROTOCOL_ERROR, "no")
        self.stopped_now.set()
        try:
            yield
        finally:
            self.stopped_now.clear()


@pytest.fixture
def admission(tmp_path, monkeypatch):
    monkeypatch.setattr(turn, "GOES_ON_S", 0.05)
    return Admission(uuid="GPU-1", folder=tmp_path / "leases")


@pytest.fixture
def timing(admission):
    """A process that times from when it is asked to until its input ends."""
    command = [sys.executable, "-c", TIMES, str(admission.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def ask(timing):
    timing.stdin.write("\n")
    timing.stdin.flush()


def test_a_compiler_is_stopped_for_one_who_times_and_goes_on_afterwards(admission, timing):
    mine, child = Turn(admission), Compiling()
    with mine.taken, mine.computing(child):
        ask(timing)
        assert timing.stdout.readline() == "has it\n"
        assert child.stopped_now.is_set()
        timing.stdin.close()
        wait_until(lambda: not child.stopped_now.is_set())
        assert not admission.is_wanted()
    assert child.times == 1


def test_one_that_cannot_be_stopped_keeps_the_device(admission, timing):
    mine, child = Turn(admission), Compiling(stops=False)
    with mine.taken, mine.computing(child):
        ask(timing)
        wait_until(lambda: child.times >= 3)
        assert admission.is_wanted()
    assert timing.stdout.readline() == "has it\n"


def test_a_build_that_is_broken_off_does_not_wait_for_who_times(admission, timing):
    mine, child = Turn(admission), Compiling()
    with mine.taken, mine.computing(child):
        ask(timing)
        assert timing.stdout.readline() == "has it\n"
        assert child.stopped_now.is_set()
    assert not child.stopped_now.is_set()
    assert admission.is_in_use(), "the other one still times"


def test_what_was_had_for_the_whole_build_is_had_in_its_calls(admission):
    mine, child = Turn(admission, whole=True), Compiling()
    with mine.taken, mine.computing(child), mine.taken, mine.computing(child):
        assert not admission.is_wanted()


def test_without_a_queue_there_is_a_turn_alone():
    mine, order = Turn(), []

    def other():
        with mine.taken, mine.computing(Compiling()):
            order.append("other")

    with mine.taken:
        thread = threading.Thread(target=other)
        thread.start()
        time.sleep(0.05)
        order.append("first")
    thread.join(PATIENCE_S)
    assert order == ["first", "other"]
