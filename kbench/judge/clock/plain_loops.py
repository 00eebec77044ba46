"""The time of a call in a plain loop, as most code calls it: the host's work included, on the judge's clock."""

import math
import statistics

from kbench.judge.clock.rounds import Rounds

ROUNDS = 3
LOOP_NS = 5_000_000
"""Time of a loop. A request takes 0.2 ms more, and a loop without a call is subtracted."""
FIRST_CALLS, MOST_CALLS = 64, 512
"""Largest number of calls of the first loop, which measures the host's time per call, and of the others."""


def empty_loop_ns(rounds: Rounds) -> float:
    """Return the time of a loop without a call."""
    return statistics.median(rounds.loop(0, 1) for _ in range(ROUNDS))


def wall_ns(rounds: Rounds, device_ns: float, slots: int, empty_ns: float) -> float:
    """Return the median time per call in ns of a few loops over `slots` slots; a call takes the device `device_ns`."""
    times, most = list[float](), FIRST_CALLS
    for _ in range(ROUNDS):
        calls = min(most, math.ceil(LOOP_NS / max([device_ns, *times[-1:]])))
        times.append(max(1.0, (rounds.loop(calls, slots) - empty_ns) / calls))
        most = MOST_CALLS
    return statistics.median(times)
