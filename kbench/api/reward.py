"""Rewards for training loops. None means that there is nothing to reward or to punish: leave the sample out.

A reward is never made up. What was not measured gives None, and so does every end that is the fault of kbench, of the
machine or of the problem (`units.unit.NO_VERDICT`).
"""

from typing import Literal, assert_never, get_args

from kbench.core.errors import UsageError
from kbench.core.model import Status
from kbench.plugins.source import did_you_mean
from kbench.units.unit import NO_VERDICT

RewardPolicy = Literal["correct", "speedup", "speedup_low"]
"""What a solution that passed is worth. `correct`: 1. `speedup`: the measured speed-up. `speedup_low`: the lower end of
its 95 % interval, which takes two processes or more. One that failed is worth 0 by each of them."""


def reward(policy: RewardPolicy, status: Status, speedup: float | None, speedup_low: float | None) -> float | None:
    """Return what a verdict is worth, or None where it says nothing. Raises UsageError for an unknown policy."""
    if policy not in get_args(RewardPolicy):
        raise UsageError(f"there is no reward `{policy}`", did_you_mean(str(policy), get_args(RewardPolicy)))
    if status in NO_VERDICT:
        return None
    if status is not Status.PASSED:
        return 0.0
    match policy:
        case "correct":
            return 1.0
        case "speedup":
            return speedup
        case "speedup_low":
            return speedup_low
        case _:
            assert_never(policy)
