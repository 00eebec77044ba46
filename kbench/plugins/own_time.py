"""The time of a problem's own code: how long each step may take, and how much of it counts against no solution."""

import time

from kbench.plugins.problem import Step

OPENING = {Step.IMPORT: 1, Step.CONSTRUCT: 5, Step.CALL: 10}
"""Chosen. Import timeouts that each step of opening a problem may take: a large model draws its weights for minutes."""
BOUNDED = frozenset({Step.IMPORT, Step.CONSTRUCT})
"""Steps of the problem's own code that a judge tells the end of."""


class OwnTime:
    """Counts the seconds in which a problem's file is imported or its `Model` constructed.

    These steps have time limits of their own, which blame the problem.
    """

    def __init__(self) -> None:
        self._ended_s = 0.0
        self._since: float | None = None

    @property
    def is_running(self) -> bool:
        """Whether such a step is under way."""
        return self._since is not None

    @property
    def seconds(self) -> float:
        """All of them, of the present step too."""
        return self._ended_s + (0.0 if self._since is None else time.monotonic() - self._since)

    def note(self, step: Step | None) -> None:
        """Count the time of a step that ended, and begin with that of another."""
        self._ended_s, self._since = self.seconds, time.monotonic() if step in BOUNDED else None
