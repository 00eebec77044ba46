"""The result of one solution and case, as Python callers get it."""

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from kbench.core.errors import UsageError, did_you_mean
from kbench.core.events import Judged
from kbench.core.model import Environment, Failed, ResultRow, Status
from kbench.core.verdict import NOT_EVALUATED
from kbench.engine.summary import judged_of, speedup_of
from kbench.engine.task import TaskVerdict
from kbench.engine.unit import OutcomeProperties

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


if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult(OutcomeProperties, Judged):
    """One verdict. A wrong, crashing or hanging solution is an `outcome` of the type `Failed`, never an exception."""

    problem: str
    speedup: float | None = None
    """Time of the reference over that of the solution; None if nothing was timed."""
    environment: Environment | None = field(default=None, repr=False)
    number: int = 0
    """Index of the pair in the arguments of `evaluate_many`."""

    @property
    def passed(self) -> bool:
        """True if it is right at the required level."""
        return self.status is Status.PASSED

    @property
    def interval(self) -> tuple[float, float] | None:
        """The speed-up's 95 % interval over processes; None for fewer than two of them."""
        low, high = (self.rows[0].speedup_low, self.rows[0].speedup_high) if self.rows else (None, None)
        return None if low is None or high is None else (low, high)

    def reward(self, policy: RewardPolicy) -> float | None:
        """Return the reward for a training loop; None if there is none: leave this sample out.

        Policies are `correct` (1 or 0), `speedup` (the measured one, 0 for a failure) and `speedup_low` (the lower end
        of its 95 % interval, 0 for a failure). Failures that are not the solution's fault, and times that the judge's
        clock does not confirm, give None. Raises UsageError: an unknown policy.
        """
        held, interval = all(row.attestation == "held" for row in self.rows), self.interval or (None, None)
        return reward(policy, self.status, self.speedup if held else None, interval[0] if held else None)

    def to_frame(self) -> "pd.DataFrame":
        """Return the rows as a pandas DataFrame: one line for each process, the columns of a results file."""
        import pandas as pd

        columns = [field.name for field in dataclasses.fields(ResultRow)]
        return pd.DataFrame([dataclasses.asdict(row) for row in self.rows], columns=columns)


def evaluation_of(verdict: TaskVerdict, started_utc: str, folder: str) -> EvaluationResult:
    """Make an EvaluationResult of a verdict. Its messages do not mention `folder`, which its caller never sees.

    Raises OSError if a source no longer exists.
    """
    judged = judged_of(verdict, "unsaved", started_utc)
    outcome = dataclasses.replace(judged.outcome, log=judged.outcome.log.replace(folder, ""))
    if isinstance(outcome, Failed):
        outcome = dataclasses.replace(outcome, reason=outcome.reason.replace(folder, ""))
    return EvaluationResult(
        problem=verdict.task.problem.name,
        solution=judged.solution,
        case=judged.case,
        outcome=outcome,
        rows=tuple(dataclasses.replace(row, reason=row.reason.replace(folder, "")) for row in judged.rows),
        stage_s=judged.stage_s,
        speedup=speedup_of(verdict),
        environment=verdict.last.environment,
    )
