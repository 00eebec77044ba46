"""The time limit of a stage: what the problem's own code takes does not count."""

import time

from kbench.engine.lane import StageLimit


class Evaluator:
    """Knows when it was interrupted, and how long the problem's own code ran."""

    def __init__(self, problem_s: list[float]):
        self.looks = list(problem_s)
        self.began = time.monotonic()
        self.interrupted_s: float | None = None

    @property
    def problem_s(self) -> float:
        """Seconds of the problem's own code, look after look."""
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def interrupt(self) -> None:
        """Remember when."""
        self.interrupted_s = time.monotonic() - self.began


def wait_for(limit: StageLimit) -> None:
    """Wait until the limit is exceeded."""
    until = time.monotonic() + 10
    while not limit.is_exceeded and time.monotonic() < until:
        time.sleep(0.01)


def test_a_stage_that_takes_too_long_loses_its_judge() -> None:
    evaluator = Evaluator([0.0])
    limit = StageLimit("verify", 0.05, evaluator)  # type: ignore[arg-type]
    wait_for(limit)
    assert limit.is_exceeded
    own = "the reference's own calls included"
    assert limit.reason == f"`verify` took longer than 0.05 s, {own}; give it more with `--verify-limit`"


def test_the_problems_own_time_is_added_as_often_as_there_is_some() -> None:
    evaluator = Evaluator([1.0, 1.2, 1.3, 1.3])
    limit = StageLimit("verify", 0.05, evaluator)  # type: ignore[arg-type]
    wait_for(limit)
    time.sleep(0.05)
    assert evaluator.interrupted_s is not None
    assert evaluator.interrupted_s >= 0.05 + 0.2 + 0.1


def test_a_stage_that_is_over_loses_nothing() -> None:
    evaluator = Evaluator([0.0])
    limit = StageLimit("verify", 0.05, evaluator)  # type: ignore[arg-type]
    limit.cancel()
    time.sleep(0.15)
    assert not limit.is_exceeded
    assert evaluator.interrupted_s is None
