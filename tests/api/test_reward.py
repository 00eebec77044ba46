"""Rewards: what is not known is None, and nobody pays for another's fault."""

from types import SimpleNamespace
from typing import Any

import pytest
from fakes import CORRECT

from kbench.api.evaluation import EvaluationResult, reward
from kbench.core.errors import UsageError
from kbench.core.model import Passed, Status
from kbench.core.verdict import NOT_EVALUATED

TIMED = (1.5, 1.4)
TABLE = [
    ("correct", Status.PASSED, *TIMED, 1.0),
    ("correct", Status.PASSED, None, None, 1.0),
    ("correct", Status.WRONG_VALUE, None, None, 0.0),
    ("speedup", Status.PASSED, *TIMED, 1.5),
    ("speedup", Status.PASSED, None, None, None),
    ("speedup", Status.CRASHED, None, None, 0.0),
    ("speedup_low", Status.PASSED, *TIMED, 1.4),
    ("speedup_low", Status.PASSED, 1.5, None, None),
    ("speedup_low", Status.TAMPERED, None, None, 0.0),
]


@pytest.mark.parametrize(("policy", "status", "speedup", "low", "worth"), TABLE)
def test_what_a_verdict_is_worth(policy, status, speedup, low, worth) -> None:
    assert reward(policy, status, speedup, low) == worth


@pytest.mark.parametrize("policy", ["correct", "speedup", "speedup_low"])
@pytest.mark.parametrize("status", sorted(NOT_EVALUATED))
def test_what_is_not_the_solutions_fault_is_never_punished(policy, status) -> None:
    assert reward(policy, status, None, None) is None


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(UsageError) as found:
        reward("speedups", Status.HARNESS_ERROR, None, None)
    assert found.value.hint == "did you mean `speedup`?"


@pytest.mark.parametrize(("attestation", "worth"), [("held", 2.0), ("weak", None)])
def test_a_time_that_is_not_confirmed_is_no_reward(attestation, worth) -> None:
    rows: Any = (SimpleNamespace(attestation=attestation, speedup_low=1.9, speedup_high=2.1),)
    outcome = Passed(correctness=CORRECT, timings=())
    found = EvaluationResult(solution="s", case="", problem="p", outcome=outcome, rows=rows, stage_s={}, speedup=2.0)
    assert found.reward("speedup") == worth
    assert found.reward("speedup_low") == (1.9 if worth else None)
    assert found.reward("correct") == 1.0
