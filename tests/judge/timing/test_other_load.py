"""What other programs take of the processors, and what does not count as theirs."""

import os
import subprocess
import sys
import time

import pytest

from kbench.judge.timing.other_load import TICKS_PER_S, OtherLoad, busy_ticks, own_ticks

STAT = "cpu  100 20 30 4000 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
PROCESS = "77 (a ) b) S 1 77 77 0 -1 4194560 1 2 3 4 250 150 9 9 20 0 1 0 100"


def test_programs_count_and_idle_time_and_interrupts_do_not():
    assert busy_ticks(STAT) == 100 + 20 + 30 + 8
    assert busy_ticks("") == 0
    assert own_ticks(PROCESS) == 250 + 150
    assert own_ticks("") == 0, "it has ended"


@pytest.mark.slow(seconds=3)
def test_what_a_tree_itself_does_is_not_other_load():
    with (
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy,
        subprocess.Popen(["sleep", "60"]) as idle,
    ):
        with OtherLoad(busy.pid) as its_own, OtherLoad(idle.pid) as strangers:
            time.sleep(1.5)
        busy.kill()
        idle.kill()
    assert 0.0 <= its_own.share < strangers.share <= 1.0
    assert strangers.share - its_own.share > 0.2 / os.cpu_count(), "a busy loop takes a processor, or its share of one"


def test_what_was_done_before_or_between_is_not_other_load(monkeypatch):
    """A helper of the candidate that ended while others were counted took its work along, which seemed theirs."""
    ticks = iter([100, 103, 900, 904])
    monkeypatch.setattr(OtherLoad, "_of_others", lambda _: next(ticks))
    times = iter([0.0, 1.0, 50.0, 51.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    load = OtherLoad(0)
    assert load.share == 0.0
    for _ in range(2):
        with load:
            pass
    assert load.share == pytest.approx(7 / (2 * TICKS_PER_S * os.cpu_count()))
