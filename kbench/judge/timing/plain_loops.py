"""The time of a call in a plain loop, as most code would call it: the host's work included, on the judge's clock."""

import math
import statistics

from kbench.judge.timing.rounds import Rounds

ROUNDS = 3
LOOP_NS = 5_000_000
"""Time of a loop: a request takes 0.2 ms beside it, and a loop without a call is subtracted."""
FIRST_CALLS, MOST_CALLS = 64, 512
"""Most calls of the first loop, which shows how long the host needs for one, and of any."""


def empty_loop_ns(rounds: Rounds) -> float:
    """Return the time of a loop without a call."""
    return statistics.median(rounds.loop(0, 1) for _ in range(ROUNDS))


def wall_ns(rounds: Rounds, device_ns: float, slots: int, empty_ns: float) -> float:
    """Return the median time per call in ns of a few loops over `slots` slots; a call takes the device `device_ns`."""
    told, most = list[float](), FIRST_CALLS
    for _ in range(ROUNDS):
        calls = min(most, math.ceil(LOOP_NS / max([device_ns, *told[-1:]])))
        told.append(max(1.0, (rounds.loop(calls, slots) - empty_ns) / calls))
        most = MOST_CALLS
    return statistics.median(told)
