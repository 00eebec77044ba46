"""Properties that a solution lacks after failed checks, and the failures that are more than a lack."""

from collections.abc import Sequence

from kbench.core.levels import Level, blocking
from kbench.core.model import Finding, FindingKind, Status
from kbench.judge.refusal import RefusalError

FATAL = {
    *(Status.INPUT_MUTATED, Status.PARAMETER_MUTATED, Status.OUTPUT_ALIASED, Status.NONDETERMINISTIC),
    *(Status.TAMPERED, Status.PROTOCOL_ERROR, Status.NOT_VERIFIED, Status.HARNESS_ERROR),
    *(Status.IMPORT_FAILED, Status.IMPORT_TIMEOUT, Status.TOTAL_TIMEOUT),
}
"""Statuses of cheating, or with a cause other than a shape, a layout or a value."""
STRAY_WRITES = {Status.INPUT_MUTATED, Status.NONDETERMINISTIC}
"""Fatal statuses that a kernel may also have by writing outside its tensors at a shape that it was not made for."""


def weight_property(status: Status, way: str, diagnosis: str | None) -> str:
    """Return the property that is lacking if changed weights, matched in a `way`, are not followed."""
    misled = way == "order" and diagnosis is None and status is not Status.RAISED  # the order may be another one
    return "unmatched_weights" if misled else "frozen_weights"


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
