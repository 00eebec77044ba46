"""Rewards for training loops. None means that the sample has no reward: leave it out.

A time that was not measured gives None. So does every status that is the fault of kbench, of the machine or of the
problem (`core.verdict.NOT_EVALUATED`).
"""

from typing import Literal, get_args

from kbench.core.errors import UsageError, did_you_mean
from kbench.core.model import Status
from kbench.core.verdict import NOT_EVALUATED

RewardPolicy = Literal["correct", "speedup", "speedup_low"]
"""Reward of a solution that passed. `correct`: 1. `speedup`: the measured speed-up. `speedup_low`: the lower end of its
95 % interval, which needs two or more processes. A solution that failed gets 0."""


def reward(policy: RewardPolicy, status: Status, speedup: float | None, speedup_low: float | None) -> float | None:
    """Return the reward of a verdict, None if there is none. Raises UsageError for an unknown policy."""
    if policy not in get_args(RewardPolicy):
        raise UsageError(f"no such reward: `{policy}`", did_you_mean(str(policy), get_args(RewardPolicy)))
    if status in NOT_EVALUATED:
        return None
    if status is not Status.PASSED:
        return 0.0
    return {"correct": 1.0, "speedup": speedup, "speedup_low": speedup_low}[policy]
