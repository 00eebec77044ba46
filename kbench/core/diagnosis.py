"""Why values are wrong: the record of an explanation that fits."""

from dataclasses import dataclass

UNWRITTEN = "unwritten"
"""The code of what says by itself that a wrong value was never written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """An explanation of wrong values that was tried and fits."""

    code: str
    """Of the kind `diagnosis` in `codes.json`."""
    sentence: str
    """What happened, for the reason: begins in lower case and has no full stop."""
    evidence: str
    """What was compared, and how well it fits the error."""
