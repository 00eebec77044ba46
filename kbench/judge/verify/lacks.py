"""What a solution lacks that fails a check beyond its task, by the way in which it fails."""

from collections.abc import Callable, Sequence

from kbench.core.levels import Level, blocking
from kbench.core.model import Finding, FindingKind, Status
from kbench.judge.refusal import RefusalError

REFUSED = {Status.RAISED, Status.INIT_FAILED, Status.BUILD_FAILED, Status.BUILD_TIMEOUT}
"""Statuses by which a kernel may say that it was made for other inputs: an exception of its own."""
FATAL = {
    *(Status.INPUT_MUTATED, Status.PARAMETER_MUTATED, Status.OUTPUT_ALIASED, Status.NONDETERMINISTIC),
    *(Status.TAMPERED, Status.PROTOCOL_ERROR, Status.NOT_VERIFIED, Status.HARNESS_ERROR),
    *(Status.IMPORT_FAILED, Status.IMPORT_TIMEOUT, Status.TOTAL_TIMEOUT),
}
"""Statuses of cheating, or with a cause other than a shape, a layout or a value."""
STRAY_WRITES = {Status.INPUT_MUTATED, Status.NONDETERMINISTIC}
"""Of these, what a kernel does as well that writes outside its tensors at a shape that it was not made for."""


def lacking(status: Status, wrong: str, refused: str) -> str | None:
    """Return what a failed check tells to be lacking; None: fatal. A crash, an exit, a hang or no memory is wrong."""
    if status in FATAL:
        return None
    return refused if status in REFUSED else wrong


def of_weights(status: Status, way: str, diagnosis: str | None) -> str | None:
    """Return what is lacking where changed weights, matched in a `way`, are not followed; None: fatal."""
    misled = way == "order" and diagnosis is None  # the order was taken for what it is not
    return lacking(status, "unmatched_weights" if misled else "frozen_weights", "weights_refused")


CodeOf = Callable[[RefusalError], str | None]
"""Names the property that a refusal tells to be lacking; None where it is fatal."""


def by_status(wrong: str, refused: str) -> CodeOf:
    """Name it by the status alone."""
    return lambda refusal: lacking(refusal.status, wrong, refused)


class LackingProperties(dict[str, RefusalError]):
    """What was found to be lacking, with the refusal of the first check of each property."""

    @property
    def codes(self) -> tuple[str, ...]:
        """All codes, sorted."""
        return tuple(sorted(self))

    def findings(self, required: Level, accepted: Sequence[str]) -> list[Finding]:
        """Return a finding for each, fatal where it keeps the solution below the required level."""
        fatal = blocking(self, required, accepted)
        return [
            Finding(code=code, kind=FindingKind.LEVEL, message=why.explained, fatal=code in fatal, status=why.status)
            for code, why in sorted(self.items())
        ]
