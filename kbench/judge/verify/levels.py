"""The levels beyond `task`: every property is tried, whatever the result of the others, and failures are recorded."""

import copy
import functools
import math
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from kbench.core.diagnosis import Diagnosis
from kbench.core.errors import ReferenceRaisedError
from kbench.core.levels import PROPERTIES
from kbench.core.model import Status
from kbench.core.values import NARROW
from kbench.judge.bindings import HARMLESS, BoundCandidate
from kbench.judge.candidate import Candidate
from kbench.judge.exchange import Trial, secret_seed
from kbench.judge.matching import weight_property
from kbench.judge.reference.reference import Reference
from kbench.judge.refusal import FATAL, STRAY_WRITES, RefusalError, WrongError
from kbench.judge.state import JudgeState
from kbench.judge.tally import Tally
from kbench.judge.verify.battery import Battery
from kbench.judge.verify.variations import (
    GLANCES,
    IN_FEW_PLACES,
    MIXED,
    MORE_GLANCES,
    RESEMBLING,
    VALID,
    VARIATIONS,
    Variation,
)
from kbench.process.layouts import MOST_BYTES, layouts_of

NARROW_DRAWS = 3
"""Number of draws in a row that have to miss by up to NARROW for a miss to count (docs/verification.md)."""
BY_CHANCE = math.inf
"""Limit of a narrow error on badly conditioned inputs, where terms cancel and the draw decides: every finite one."""
DRAWS = 4
"""Chosen. Draws of other values before a check is skipped: a sum of centred values may be near zero."""
PLAIN_DRAWS = 8
"""Chosen. Number of plain calls that show whether a solution misses as narrowly on usual inputs."""
THOROUGH = 2
"""Number of derived shapes that have as many calls as a case of the problem."""
WORDS = {"alignment": "misaligned", "strides": "strided", "channels_last": "channels_last"}
"""Inputs of other layouts in words, by what a solution lacks that is wrong on them."""
REMEMBERED = "stale_output"
"""Diagnosis of an answer to an earlier call, which no level excuses."""


class Levels:
    """Tries one candidate that does the task."""

    def __init__(self, bound: BoundCandidate, battery: Battery, candidate: Candidate, judge: JudgeState):
        self._bound = bound
        self._battery = battery
        self._candidate = candidate
        self._judge = judge
        self._own = judge.reference
        self._began = time.monotonic()
        self._held = [self._own]
        """References of the shapes at which the solution was right."""
        self.changes_parameters = False
        """True if a call changes parameters and is right with its constructor's: other values were not tried then."""
        self.lacks: dict[str, RefusalError] = {}
        """Properties that it lacks, each with the refusal of its first failed check."""
        self.tally = Tally()
        """Errors of the right calls at the problem's own shape."""

    def try_all(self, others: Sequence[dict[str, Any]], derived: Sequence[dict[str, Any]], *, thrifty: bool) -> None:
        """Try every property. Raises RefusalError for a fatal failure.

        A smaller shape that holds gets most values and the layouts; if `thrifty`, also further calls of other checks.
        """
        references = [self._judge.other(overrides) for overrides in others]
        self._weights(self._own, apart=not thrifty)
        together = self._values_together(thrifty=thrifty)
        holding = [reference for reference in references if self._essentials(reference, "cases")]
        tried = [self._derived(overrides, number) for number, overrides in enumerate(derived)]
        small = [*holding[:1], *(reference for reference in tried[:THOROUGH] if reference)]
        most = (small or [self._own])[0]
        if thrifty:
            if self._candidate.follows:
                self._weights(most)
            self._refusal(most, functools.partial(self.try_resembling, RESEMBLING), fatal=frozenset(Status))
        self._values(most, VARIATIONS)
        if small:
            self._in_few_places(most, MORE_GLANCES)
        if small and together is not None:
            self._values(self._own, VALID)
        if isinstance(together, RefusalError):
            self.lacks.setdefault(MIXED.lack, together)  # also where each kind alone is right
        fits = self._own.cost.dram_bytes <= MOST_BYTES
        laid_out = holding[0] if holding else self._own if fits or not small else small[0]
        if self._battery.other_numbers(laid_out) is not None:
            self._anew("values", "other_numbers", laid_out, self._battery.other_numbers)
        if self._battery.other_indices(laid_out) is not None:
            self._anew("unseen_integers", "unseen_integers", laid_out, self._battery.other_indices)
        self._try("output_reuse", most, self._battery.kept_results)
        layouts = [(lack, misalign) for lack, _, misalign in layouts_of(laid_out.arguments(secret_seed()))]
        for lack, misalign in layouts:
            self._anew(lack, WORDS[lack], laid_out, functools.partial(arguments_as, lack), misalign)
        self._updated_in_place(most)  # last: folded weights stay stale afterwards

    def try_resembling(self, variations: Sequence[Variation], trial: Trial) -> None:
        """Try inputs that resemble those of the call before. Raises RefusalError if they are taken for these."""
        for variation in variations:
            if trial.reference.inputs.varies(variation.transform, variation.applies):
                refusal = self._resembling(trial, variation)
                if refusal is not None:
                    self.lacks.setdefault(variation.lack, refusal)

    def _resembling(self, trial: Trial, variation: Variation) -> RefusalError | None:
        """Run `Battery.resembling`; a narrow miss counts only if the next draws miss as well."""
        missed: RefusalError | None = None

        def check() -> None:
            nonlocal missed
            missed = self._battery.resembling(trial, variation)
            if missed is not None:
                raise missed

        try:
            decided(check)
        except RefusalError as refusal:
            if refusal.without_frames() is missed:
                return refusal
            refusal.excess = math.inf  # all draws missed, so no caller draws again
            raise
        return None

    def _weights(self, reference: Reference, *, apart: bool = True) -> None:
        """Try parameters that change after construction; if they are not followed, later checks keep them unchanged."""
        candidate = self._candidate
        if candidate.weights == "none":
            return
        if candidate.weights == "seed":
            prepares = candidate.prepares and not candidate.transposed and not self.changes_parameters
            lack = "frozen_weights" if prepares else "unmatched_weights"
            unmatched = "its calls change them" if self.changes_parameters else candidate.unmatched
            detail = "" if prepares else f": {unmatched}"
            self.lacks[lack] = RefusalError(Status.NOT_VERIFIED, PROPERTIES[lack].title + detail)
            return
        candidate.follows = True
        refusal = self._refusal(reference, functools.partial(self._battery.weights, apart=apart))
        candidate.follows = refusal is None
        if refusal is not None:
            why = refusal.diagnosis.code if refusal.diagnosis is not None else None
            self.lacks.setdefault(weight_property(refusal.status, candidate.weights, why), refusal)
        elif apart:
            self._try("values", reference, functools.partial(self._battery.small_weights, draws=DRAWS))

    def _updated_in_place(self, reference: Reference) -> None:
        """Try parameters that change in place, if the solution follows changes at all."""
        found = self._refusal(reference, self._battery.updated_in_place) if self._candidate.follows else None
        if found is not None and not self._misses_anyway(found, reference):
            self.lacks.setdefault("weights_in_place", found)

    def _values(self, reference: Reference, variations: Sequence[Variation]) -> None:
        for variation in variations:
            if reference.inputs.varies(variation.transform, variation.applies):
                narrow = NARROW if variation.is_usual else BY_CHANCE
                self._try(variation.lack, reference, functools.partial(self._vary, variation), narrow)

    def _values_together(self, *, thrifty: bool) -> RefusalError | bool | None:
        """Try valid values of all kinds in one call, then few places and, unless `thrifty`, one kind alone.

        Returns the refusal if all kinds together are wrong, False if the reference does not accept them together.
        """
        could: list[bool] = []
        refused = self._refusal(self._own, lambda trial: could.append(self._vary(MIXED, trial)))
        self._in_few_places(self._own, GLANCES)
        if refused is not None:
            return refused
        if could != [True]:
            return False
        self._values(self._own, [] if thrifty else [secrets.choice(VALID)])
        return None

    def _in_few_places(self, reference: Reference, draws: int) -> None:
        """Try a few elements of another sign, level or size, at places that samples seldom include."""
        few = [one for one in IN_FEW_PLACES if reference.inputs.varies(one.transform, one.applies)]

        def check(trial: Trial) -> None:
            for _ in range(draws):
                any(self._vary(variation, trial) for variation in few)

        if few:
            self._try(few[0].lack, reference, check)

    def _vary(self, variation: Variation, trial: Trial) -> bool:
        return self._battery.vary(trial, variation, [secret_seed() for _ in range(DRAWS)])

    def _derived(self, overrides: dict[str, Any], number: int) -> Reference | None:
        """Try a shape that the problem does not list; return its reference if all checks held.

        The first shapes have all essential checks. The others are larger and have one call each.
        """
        check = self._battery.essentials if number < THOROUGH else self._battery.right_once
        shape = ", ".join(f"{name}={value}" for name, value in overrides.items())
        reference = self._judge.derived(overrides)
        try:
            if reference is not None:
                return reference if self._essentials(reference, "shapes", check) else None
        except ReferenceRaisedError:  # raised on inputs drawn later
            self._bound.rebind_next()
        self._battery.note("skipped_shape", f"the reference does not accept {shape}")
        return None

    def _essentials(self, reference: Reference, lack: str, check: Callable[[Trial], None] | None = None) -> bool:
        """Try another shape, of the `cases` that the problem lists or of the `shapes` that it does not."""
        fatal = FATAL - STRAY_WRITES if lack == "shapes" else FATAL
        shape = shape_in_words(reference, self._own)
        try:
            refusal = self._refusal(reference, check or self._battery.essentials, fatal=fatal)
        except RefusalError as ends:
            name_shape(ends, shape)
            raise
        if refusal is None:
            self._held.append(reference)
        else:
            name_shape(refusal, shape)
            self.lacks.setdefault(lack, refusal)
        return refusal is None

    def _anew(
        self, lack: str, words: str, reference: Reference, draw: Callable[[Reference], Any], misalign: int = 0
    ) -> None:
        """Try inputs that need another arena; a narrow miss counts as in `decided`."""

        def check() -> None:
            self._bound.load(reference)
            self._battery.bound_anew(reference, words, draw(reference), misalign)
            self._bound.rebind_next()

        try:
            decided(check)
        except RefusalError as refusal:
            self._bound.rebind_next()
            if not self._misses_anyway(refusal.without_frames(), reference):
                self._require_survived(refusal, reference, FATAL)
                self.lacks.setdefault(lack, refusal)

    def _misses_anyway(self, refusal: RefusalError, reference: Reference) -> bool:
        """Return whether values miss as narrowly on plain inputs: then the miss is not caused by the tried change."""
        if refusal.excess > NARROW or refusal.status is not Status.WRONG_VALUE:
            return False
        before = copy.deepcopy(self.tally)
        try:
            for _ in range(PLAIN_DRAWS):
                self._bound.bound_to(reference).exchange(secret_seed(), oracle=True)
        except RefusalError as plain:
            return plain.without_frames().excess <= NARROW
        finally:
            self.tally = before
        return False

    def _try(self, lack: str, reference: Reference, check: Callable[[Trial], object], narrow: float = NARROW) -> None:
        """Make a check on a shape, and record what a solution lacks that fails it."""
        refusal = self._refusal(reference, check, narrow)
        if refusal is not None:
            self.lacks.setdefault(lack, refusal)

    def _refusal(
        self,
        reference: Reference,
        check: Callable[[Trial], object],
        narrow: float = NARROW,
        *,
        fatal: Collection[Status] = FATAL,
    ) -> RefusalError | None:
        """Return the refusal of a check (see `decided`), whose errors are not counted. Raises a fatal one."""

        def uncounted() -> None:
            before = copy.deepcopy(self.tally)
            try:
                trial = self._bound.bound_to(reference)
                if reference is self._own:
                    trial.tally = self.tally
                check(trial)
            except RefusalError:
                self.tally = before
                raise

        try:
            decided(uncounted, narrow)
        except RefusalError as refusal:
            self._require_survived(refusal.without_frames(), reference, fatal)
            return refusal
        return None

    def _require_survived(self, refusal: RefusalError, reference: Reference, fatal: Collection[Status]) -> None:
        """Raise a refusal that is more than a lack; else let the next check begin with a new model."""
        remembers = refusal.diagnosis is not None and refusal.diagnosis.code == REMEMBERED
        if remembers or refusal.status in fatal:
            raise refusal
        held = reference in self._held and refusal.status in HARMLESS
        if held and not self._still_holds(reference) and self._goes_wrong_alone(reference):
            refusal.reason = f"right in its first calls, wrong after {self.tally.calls}: {refusal.reason}"
            raise refusal
        self._bound.reconstruct_next(refusal)

    def _still_holds(self, reference: Reference) -> bool:
        """Return whether the same instance is right with the weights of construction, after all its calls."""
        try:
            reference.restore()
            self._bound.rebound(reference).exchange(secret_seed())
        except RefusalError as refusal:
            return not isinstance(refusal, WrongError)  # the failed check may have broken it
        return True

    def _goes_wrong_alone(self, reference: Reference) -> bool:
        """Return whether another instance becomes wrong after as many plain calls and as long a time.

        An instance that remembers addresses of inputs, as a recorded CUDA graph does, may be wrong at these later.
        """
        calls, since_s = max(2 * self.tally.calls, self._candidate.calls), time.monotonic() - self._began
        self._bound.reconstruct_next()
        try:
            self._bound.bound_to(reference)
            until = time.monotonic() + since_s
            while calls > 0 or time.monotonic() < until:
                self._bound.bound_to(reference).exchange(secret_seed())
                calls -= 1
        except RefusalError:
            return True
        return False


def decided(check: Callable[[], None], narrow: float = NARROW) -> None:
    """Make a check; a miss by up to `narrow` counts only if further draws miss. Raises the last RefusalError."""
    for _ in range(NARROW_DRAWS - 1):
        try:
            return check()
        except RefusalError as refusal:
            excess = refusal.without_frames().excess
            if not excess <= narrow or math.isinf(excess):
                raise
    return check()


def arguments_as(lack: str, reference: Reference) -> list[Any]:
    """Return fresh arguments in the layout of a lack."""
    drawn = layouts_of(reference.arguments(secret_seed()))
    return next(arguments for name, arguments, _ in drawn if name == lack)


def shape_in_words(other: Reference, own: Reference) -> str:
    """Return the constants that differ, as `name=value` of the other reference; empty for none."""
    names = dict.fromkeys((*own.overrides, *other.overrides))
    values = {name: [getattr(r.problem.module, name, None) for r in (other, own)] for name in names}
    return ", ".join(f"{name}={theirs}" for name, (theirs, ours) in values.items() if repr(theirs) != repr(ours))


def name_shape(refusal: RefusalError, shape: str) -> None:
    """Let a refusal say at which other shape the solution failed."""
    if shape and refusal.status in {Status.WRONG_VALUE, Status.UNWRITTEN_OUTPUT}:
        refusal.diagnosis = needs_other_shape(refusal.diagnosis, shape)
    elif shape:
        refusal.reason = f"at {shape}: {refusal.reason}"


def needs_other_shape(inner: Diagnosis | None, shape: str) -> Diagnosis:
    """Return the diagnosis of a solution that is right at its own shape, with the diagnosis at the other one."""
    evidence = "right in every call at the problem's own shape"
    return Diagnosis(
        code="needs_other_shape",
        sentence=f"right at its own shape, wrong at {shape}" + (f": {inner.sentence}" if inner else ""),
        evidence=evidence + (f"; at the other one: {inner.evidence} ({inner.code})" if inner else ""),
    )
