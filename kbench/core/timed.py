"""The passes that a row times, by the name of its case: `small` is the forward pass, `small+backward` both passes."""

from collections.abc import Iterable

FORWARD, BACKWARD = "forward", "forward+backward"
SUFFIX = "+backward"
"""Ending of the name of a case with both passes."""


def timed_of(case: str) -> str:
    """Return what a row of a case times, by its name."""
    return BACKWARD if case.endswith(SUFFIX) else FORWARD


def mean_name(cases: Iterable[str], weights: Iterable[float]) -> str:
    """Return the name of a geometric mean over cases: it counts those of forward only, and says so beside others."""
    of = " (forward)" if any(timed_of(case) != FORWARD for case in cases) else ""
    return f"{'weighted ' if len(set(weights)) > 1 else ''}geometric mean{of}"


def forward_of(case: str) -> str:
    """Return the name of the case whose constants a case has."""
    return case.removesuffix(SUFFIX)
