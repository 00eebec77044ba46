"""A refusal at another shape than the problem's own: it names the shape, and whether the own one is right."""

from collections.abc import Callable
from dataclasses import dataclass

from kbench.core.diagnosis import Diagnosis
from kbench.isolation.battery import SEEDS, SHAPELESS, Battery
from kbench.isolation.candidate import Candidate
from kbench.isolation.reference import Reference
from kbench.isolation.refusal import RefusalError
from kbench.isolation.trial import Trial, WrongError, secret_seed

OF_SHAPES = {"unwritten", "partial_block", "transposed"}
"""Diagnoses that may hang on the shape; the others are of what a solution does at any."""

ASKING_S = 60.0
"""For the calls at the problem's own shape, which may have to be compiled first (chosen)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Checks of the essentials at any shape of a problem; `own` is the one that was asked for."""

    own: Reference
    battery: Battery
    candidate: Candidate
    bind: Callable[[Reference], Trial]

    def essentials(self, trial: Trial, *, listed: bool) -> None:
        """Check what any shape must hold. Raises RefusalError, of which a reason names a shape that is `listed`."""
        try:
            self.battery.essentials(trial)
        except RefusalError as refusal:
            shape = shape_in_words(trial.reference, self.own)
            why = refusal.diagnosis
            possible = why is None or why.code in OF_SHAPES
            if shape and possible and isinstance(refusal, WrongError) and self._is_right_at_own():
                refusal.diagnosis = needs_other_shape(why, shape)
            elif shape and listed and refusal.status not in SHAPELESS:
                refusal.reason = f"at {shape}: {refusal.reason}"
            raise

    def _is_right_at_own(self) -> bool:
        """Call at the problem's own shape with several weights; what goes wrong there is not the other shape's."""
        try:
            with self.candidate.within(ASKING_S):
                self.candidate.load(self.own)
                trial = self.bind(self.own)
                for _ in range(SEEDS):
                    self.candidate.vary_weights(self.own, secret_seed())
                    trial.exchange(secret_seed(), oracle=True)
        except Exception:  # noqa: BLE001 - nothing at this shape changes what was wrong at the other one
            return False
        return True


def shape_in_words(other: Reference, own: Reference) -> str:
    """Return the constants that differ, as `name=value` of the other one; empty where none do."""
    names = dict.fromkeys((*own.overrides, *other.overrides))
    values = {name: [getattr(r.problem.module, name, None) for r in (other, own)] for name in names}
    return ", ".join(f"{name}={theirs}" for name, (theirs, ours) in values.items() if repr(theirs) != repr(ours))


def needs_other_shape(inner: Diagnosis | None, shape: str) -> Diagnosis:
    """Return the diagnosis of what is right at its own shape, with what was found at the other one."""
    evidence = f"right in {SEEDS} calls at the problem's own shape, with as many weights"
    return Diagnosis(
        code="needs_other_shape",
        sentence=f"right at its own shape, wrong at {shape}" + (f": {inner.sentence}" if inner else ""),
        evidence=evidence + (f"; at the other one: {inner.evidence} ({inner.code})" if inner else ""),
    )
