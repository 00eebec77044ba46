"""The passes that a row times, by the name of its case: `small` is the forward pass, `small+backward` both passes."""

FORWARD, BACKWARD = "forward", "forward+backward"
SUFFIX = "+backward"
"""Ending of the name of a case with both passes."""


def timed_of(case: str) -> str:
    """Return what a row of a case times, by its name."""
    return BACKWARD if case.endswith(SUFFIX) else FORWARD


def forward_of(case: str) -> str:
    """Return the name of the case whose constants a case has."""
    return case.removesuffix(SUFFIX)
