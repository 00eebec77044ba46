"""An explanation of wrong values that fits."""

from dataclasses import dataclass

UNWRITTEN = "unwritten_output"
"""Code of the diagnosis that elements were never written, which needs no other evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """An explanation of wrong values that was tried and fits."""

    code: str
    """A code that `kbench explain` knows."""
    sentence: str
    """The cause, as part of the reason: begins in lower case and has no full stop."""
    evidence: str
    """The comparison that was made, and how well it fits the error."""
