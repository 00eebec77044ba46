"""The property that a solution lacks after a failed check, by the way in which it fails."""

from collections.abc import Callable, Sequence

from kbench.core.levels import Level, blocking
from kbench.core.model import Finding, FindingKind, Status
from kbench.judge.refusal import RefusalError

REFUSED = {Status.RAISED, Status.INIT_FAILED, Status.BUILD_FAILED, Status.BUILD_TIMEOUT}
"""Statuses by which a kernel refuses inputs that it was not made for: an exception of its own."""
FATAL = {
    *(Status.INPUT_MUTATED, Status.PARAMETER_MUTATED, Status.OUTPUT_ALIASED, Status.NONDETERMINISTIC),
    *(Status.TAMPERED, Status.PROTOCOL_ERROR, Status.NOT_VERIFIED, Status.HARNESS_ERROR),
    *(Status.IMPORT_FAILED, Status.IMPORT_TIMEOUT, Status.TOTAL_TIMEOUT),
}
"""Statuses of cheating, or with a cause other than a shape, a layout or a value."""
STRAY_WRITES = {Status.INPUT_MUTATED, Status.NONDETERMINISTIC}
"""Fatal statuses that a kernel may also have by writing outside its tensors at a shape that it was not made for."""


def lacking(status: Status, wrong: str, refused: str) -> str | None:
    """Return the property that a failed check lacks; None if fatal. A crash, a hang or no memory counts as `wrong`."""
    if status in FATAL:
        return None
    return refused if status in REFUSED else wrong


def weight_property(status: Status, way: str, diagnosis: str | None) -> str | None:
    """Return the property that is lacking if changed weights, matched in a `way`, are not followed; None if fatal."""
    misled = way == "order" and diagnosis is None  # the order may not be the reference's
    return lacking(status, "unmatched_weights" if misled else "frozen_weights", "weights_refused")


CodeOf = Callable[[RefusalError], str | None]
"""Names the property that a refusal shows to be lacking; None if the refusal is fatal."""


def by_status(wrong: str, refused: str) -> CodeOf:
    """Return a function that names the property by the status alone."""
    return lambda refusal: lacking(refusal.status, wrong, refused)


class LackingProperties(dict[str, RefusalError]):
    """Lacking properties, each with the refusal of its first failed check."""

    @property
    def codes(self) -> tuple[str, ...]:
        """All codes, sorted."""
        return tuple(sorted(self))

    def findings(self, required: Level, accepted: Sequence[str]) -> list[Finding]:
        """Return a finding for each; it is fatal if it keeps the solution below the required level."""
        fatal = blocking(self, required, accepted)
        return [
            Finding(code=code, kind=FindingKind.LEVEL, message=why.explained, fatal=code in fatal, status=why.status)
            for code, why in sorted(self.items())
        ]
