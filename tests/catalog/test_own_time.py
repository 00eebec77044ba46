"""The time of a problem's own code: counted while a step with a limit of its own is under way."""

import pytest

from kbench.catalog import problem
from kbench.catalog.problem import OwnTime, Step


def test_the_time_of_the_problems_own_code_is_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(problem.time, "monotonic", lambda: now[0])
    counted = OwnTime()
    seen = []
    for passed_s, step in ((5.0, None), (2.0, Step.IMPORT), (3.0, Step.CONSTRUCT), (4.0, Step.CALL), (7.0, None)):
        now[0] += passed_s
        counted.note(step)
        seen.append((counted.seconds, counted.is_running))
    assert seen == [(0.0, False), (0.0, True), (3.0, True), (7.0, False), (7.0, False)]
