"""A failure at another shape than the problem's own: it names the shape, and that the own one is right."""

from kbench.core.diagnosis import Diagnosis
from kbench.judge.reference.reference import Reference


def shape_in_words(other: Reference, own: Reference) -> str:
    """Return the constants that differ, as `name=value` of the other one; empty where none do."""
    names = dict.fromkeys((*own.overrides, *other.overrides))
    values = {name: [getattr(r.problem.module, name, None) for r in (other, own)] for name in names}
    return ", ".join(f"{name}={theirs}" for name, (theirs, ours) in values.items() if repr(theirs) != repr(ours))


def needs_other_shape(inner: Diagnosis | None, shape: str) -> Diagnosis:
    """Return the diagnosis of what is right at its own shape, with what was found at the other one."""
    evidence = "right in every call at the problem's own shape"
    return Diagnosis(
        code="needs_other_shape",
        sentence=f"right at its own shape, wrong at {shape}" + (f": {inner.sentence}" if inner else ""),
        evidence=evidence + (f"; at the other one: {inner.evidence} ({inner.code})" if inner else ""),
    )
