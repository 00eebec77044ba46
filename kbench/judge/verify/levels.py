"""The levels beyond `task`: one loop makes the checks of a table, and records the properties that a solution lacks."""

import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kbench.core.diagnosis import Diagnosis
from kbench.core.errors import ReferenceRaisedError
from kbench.core.levels import PROPERTIES, WEIGHT_CODES
from kbench.core.model import Cost, Status
from kbench.core.values import DRAWS, MANY_DRAWS, NARROW
from kbench.judge.bindings import BoundCandidate
from kbench.judge.reference.reference import Reference
from kbench.judge.refusal import HARMLESS, RefusalError, WrongError
from kbench.judge.state import JudgeState
from kbench.judge.verify.battery import Battery
from kbench.judge.verify.checks import LevelCheck, On, carrier
from kbench.process.layouts import MOST_BYTES

THOROUGH = 2
"""Number of derived shapes that have as many calls as a case of the problem."""
OTHERS = (On.CASES, On.DERIVED, On.LARGER)
"""Checks at all shapes of a kind, which decide whether one holds."""
MOST_FLOPS = 1 << 35
"""FLOPs up to which calls are short: 0.7 ms of an H200's fp32 units."""
REMEMBERED = "stale_output"
"""Diagnosis of an answer to an earlier call, which no level excuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherShapes:
    """Results of all checks at other shapes than a case's own, which the further cases of a run share."""

    cases_held: bool
    derived_held: bool
    lacks: Mapping[str, RefusalError]

    def excludes(self, on: On) -> bool:
        """Return whether checks on these shapes are not among them, because each case carries them itself."""
        cases, derived = (["other"] if held else [] for held in (self.cases_held, self.derived_held))
        return on not in OTHERS and carrier(on, "own", cases, derived) == "own"


class Levels:
    """Tries one candidate that does the task, at shapes of the problem: its own, `others`, and `derived` ones.

    If the `known` results at the others are given, only the own shape is tried.
    """

    def __init__(
        self,
        bound: BoundCandidate,
        battery: Battery,
        judge: JudgeState,
        others: Sequence[dict[str, Any]] = (),
        derived: Sequence[dict[str, Any]] = (),
        known: OtherShapes | None = None,
    ):
        self._bound = bound
        self._battery = battery
        self._judge = judge
        self._own = judge.reference
        self._overrides = dict(zip(OTHERS, (others, derived[:THOROUGH], derived[THOROUGH:]), strict=True))
        self._held: dict[On, list[Reference]] = {on: [] for on in self._overrides}
        """References of the other shapes at which the solution was right."""
        self.is_long = bool(others or derived) and is_long(self._own.cost)
        """True if calls are long at the own shape, and a smaller one follows, which can have most of them."""
        self._began = time.monotonic()
        self.changes_parameters = False
        """True if a call changes parameters and is right with its constructor's: other values were not tried then."""
        self._known = known
        self._lacks_elsewhere: dict[str, RefusalError] = {}
        self.lacks: dict[str, RefusalError] = {} if known is None else {**known.lacks}
        """Properties that it lacks, each with the refusal of its first failed check."""

    def try_all(self, checks: Iterable[LevelCheck]) -> None:
        """Make the checks, whatever the result of the others. Raises RefusalError for a fatal failure."""
        for check in checks:
            for reference in self._carriers(check):
                refusal = self._result(check, reference)
                if refusal is not None:
                    lack = self._lack(check, refusal)
                    self.lacks.setdefault(lack, refusal)
                    if reference is not self._own:
                        self._lacks_elsewhere.setdefault(lack, refusal)
        if (second_model := self._bound.second_model) is not None:
            self.lacks["second_model"] = self._lacks_elsewhere["second_model"] = second_model

    @property
    def elsewhere(self) -> OtherShapes:
        """The results at other shapes than the own one."""
        if self._known is not None:
            return self._known
        cases, derived = (bool(self._held[on]) for on in (On.CASES, On.DERIVED))
        return OtherShapes(cases_held=cases, derived_held=derived, lacks=self._lacks_elsewhere)

    def note_unmatched(self) -> None:
        """Record that parameters match by seed only, so that they cannot be changed."""
        candidate = self._bound.candidate
        if candidate.weights == "seed":
            unmatched = "its calls change them" if self.changes_parameters else candidate.unmatched
            lack = "unmatched_weights" if unmatched else "frozen_weights"
            detail = f": {unmatched}" if unmatched else ""
            self.lacks[lack] = RefusalError(Status.NOT_VERIFIED, PROPERTIES[lack].title + detail)

    def _carriers(self, check: LevelCheck) -> Iterator[Reference]:
        """Yield the shapes on which a check is made."""
        if self._known is not None and not self._known.excludes(check.on):
            return
        if check.lack in WEIGHT_CODES & self.lacks.keys():
            return  # weights that are not followed are not tried again
        if check.on is On.CASES:
            yield from map(self._judge.other, self._overrides[check.on])
        elif check.on in self._overrides:
            for overrides in self._overrides[check.on]:
                reference = self._judge.derived(overrides)
                if reference is None:
                    self._note_skipped(overrides)
                else:
                    yield reference
        else:
            held = self._held[On.CASES], self._held[On.DERIVED]
            reference = carrier(check.on, self._own, *held)
            if reference is not None and check.applies(self._bound.candidate, reference):
                yield reference

    def _result(self, check: LevelCheck, reference: Reference) -> RefusalError | None:
        """Make a check on a shape; return the refusal of a solution that fails it. Raises a fatal one."""
        try:
            refusal = self._refusal(check, reference)
        except ReferenceRaisedError:  # raised on inputs drawn later
            if check.on not in {On.DERIVED, On.LARGER}:
                raise
            self._bound.rebind_next()
            self._note_skipped(reference.overrides)
            return None
        is_other = check.on in self._held
        if refusal is None:
            if is_other:
                self._held[check.on].append(reference)
            return None
        if check.is_effect and self._misses_anyway(refusal, reference):
            return None
        try:
            self._require_survived(refusal, reference, check.fatal)
        finally:
            if is_other:
                name_shape(refusal, reference, self._own)
        return refusal

    def _refusal(self, check: LevelCheck, reference: Reference) -> RefusalError | None:
        """Make a check; return its refusal, of a narrow miss only if all draws miss."""
        for left in reversed(range(DRAWS)):
            try:
                check.make(self._battery, self._bound.bound_to(reference))
            except RefusalError as refusal:
                excess = refusal.without_frames().excess
                if not left or not excess <= check.narrow or math.isinf(excess):
                    return refusal
            else:
                return None
        raise AssertionError("the last draw returns")

    def _lack(self, check: LevelCheck, refusal: RefusalError) -> str:
        """Return the property that a failed check shows; weights that are not followed change no more."""
        if check.lack not in WEIGHT_CODES:
            return check.lack
        candidate = self._bound.candidate
        candidate.follows = False
        # Without a diagnosis, the order by which parameters were matched may be another one.
        misled = candidate.weights == "order" and refusal.diagnosis is None and refusal.status is not Status.RAISED
        return "unmatched_weights" if misled else "frozen_weights"

    def _note_skipped(self, overrides: dict[str, Any]) -> None:
        shape = ", ".join(f"{name}={value}" for name, value in overrides.items())
        self._battery.note("skipped_shape", f"the reference does not accept {shape}")

    def _misses_anyway(self, refusal: RefusalError, reference: Reference) -> bool:
        """Return whether values miss as narrowly on plain inputs: then the miss is not caused by the tried change."""
        if refusal.excess > NARROW or refusal.status is not Status.WRONG_VALUE:
            return False
        self._bound.rebind_next()
        plain = self._plain_calls(reference, MANY_DRAWS, oracle=True)
        return plain is not None and plain.excess <= NARROW

    def _require_survived(self, refusal: RefusalError, reference: Reference, fatal: Collection[Status]) -> None:
        """Raise a refusal that is more than a lack; else let the next check begin with a new model."""
        remembers = refusal.diagnosis is not None and refusal.diagnosis.code == REMEMBERED
        if remembers or (refusal.status in fatal and not refusal.is_lack):
            raise refusal
        held = reference is self._own or any(reference in found for found in self._held.values())
        if (
            held
            and refusal.status in HARMLESS
            and not self._still_holds(reference)
            and self._goes_wrong_alone(reference)
        ):
            calls = self._bound.tally.figures.calls
            refusal.reason = f"right in its first calls, wrong after {calls}: {refusal.reason}"
            raise refusal
        self._bound.reconstruct_next(refusal)

    def _still_holds(self, reference: Reference) -> bool:
        """Return whether the same instance is right with the weights of construction, after all its calls."""
        try:
            reference.restore()
            self._bound.rebound(reference).exchange()
        except RefusalError as refusal:
            return not isinstance(refusal, WrongError)  # the failed check may have broken it
        return True

    def _goes_wrong_alone(self, reference: Reference) -> bool:
        """Return whether another instance becomes wrong after as many plain calls and as long a time.

        An instance that remembers addresses of inputs, as a recorded CUDA graph does, may be wrong at these later.
        """
        calls = max(2 * (self._bound.tally.figures.calls or 0), self._bound.candidate.calls)
        since_s = time.monotonic() - self._began
        self._bound.reconstruct_next()
        return self._plain_calls(reference, calls, since_s) is not None

    def _plain_calls(
        self, reference: Reference, calls: int, seconds: float = 0.0, *, oracle: bool = False
    ) -> RefusalError | None:
        """Make at least so many calls, for at least so long; return the refusal of the first that is not right."""
        try:
            self._bound.bound_to(reference)
            until = time.monotonic() + seconds
            while calls > 0 or time.monotonic() < until:
                self._bound.bound_to(reference).exchange(oracle=oracle)
                calls -= 1
        except RefusalError as refusal:
            return refusal.without_frames()
        return None


def is_long(cost: Cost) -> bool:
    """Return whether a call takes long, by what it moves and computes, and not by a clock: checks depend on it."""
    return cost.dram_bytes > MOST_BYTES or cost.flops > MOST_FLOPS


def name_shape(refusal: RefusalError, other: Reference, own: Reference) -> None:
    """Let a refusal say at which other shape the solution failed."""
    names = dict.fromkeys((*own.overrides, *other.overrides))
    values = {name: [getattr(r.problem.module, name, None) for r in (other, own)] for name in names}
    shape = ", ".join(f"{name}={theirs}" for name, (theirs, ours) in values.items() if repr(theirs) != repr(ours))
    if shape and refusal.status in {Status.WRONG_VALUE, Status.UNWRITTEN_OUTPUT}:
        found = refusal.diagnosis
        sentence = f"right at its own shape, wrong at {shape}" + (f": {found.sentence}" if found else "")
        evidence = found.evidence if found else "right in every call at the problem's own shape"
        refusal.diagnosis = Diagnosis(code="needs_other_shape", sentence=sentence, evidence=evidence)
    elif shape:
        refusal.reason = f"at {shape}: {refusal.reason}"
