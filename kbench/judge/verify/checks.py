"""The table of checks: the property that each is about, the shape that carries it, and the misses that do not count."""

import functools
import math
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from kbench.core.model import Status
from kbench.core.values import NARROW
from kbench.judge.candidate import Candidate
from kbench.judge.exchange import Trial
from kbench.judge.reference.drawing import is_number
from kbench.judge.reference.reference import Reference
from kbench.judge.refusal import FATAL, STRAY_WRITES
from kbench.judge.verify import batch_invariance
from kbench.judge.verify.battery import LAYOUTS, Battery
from kbench.judge.verify.variations import (
    GLANCES,
    MIXED,
    RESEMBLING,
    VALID,
    VARIATIONS,
    Variation,
    few_places,
)

Shape = TypeVar("Shape")


class On(StrEnum):
    """Shapes that carry a check."""

    OWN = "its own"
    OWN_SHORT = "its own, if calls are short"
    OWN_LONG = "its own, if calls are long"
    OWN_TOO = "its own, if a smaller one holds"
    CASES = "every other case of the problem"
    DERIVED = "the first ones that the problem does not list"
    LARGER = "further ones that the problem does not list"
    SMALLER = "a smaller one that holds"
    MOST = "a smaller one that holds, else its own"
    MOST_LONG = "the same, if calls at its own are long"
    LAYOUTS = "a case that holds, else its own, or a smaller one if calls at its own are long"


def carrier(
    on: On, own: Shape, cases: Sequence[Shape] = (), derived: Sequence[Shape] = (), *, is_long: bool = False
) -> Shape | None:
    """Return the shape that carries a check; None if none does.

    At `cases` and `derived` shapes the solution was right. If calls at the own shape are long, a smaller one has most.
    """
    small = next(iter([*cases, *derived]), None)
    most = own if small is None else small
    return {
        On.OWN: own,
        On.OWN_SHORT: None if is_long else own,
        On.OWN_LONG: own if is_long else None,
        On.OWN_TOO: None if small is None else own,
        On.SMALLER: small,
        On.MOST: most,
        On.MOST_LONG: most if is_long else None,
        On.LAYOUTS: most if cases or is_long else own,
    }[on]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelCheck:
    """One row."""

    lack: str
    """Property that a solution lacks if it fails: a key of `levels.PROPERTIES`."""
    on: On
    make: Callable[[Battery, Trial], object]
    """Raises RefusalError if the solution fails; returns False if no inputs could decide."""
    applies: Callable[[Candidate, Reference], object] = lambda *_: True
    narrow: float = NARROW
    """Largest finite excess of a miss that counts only if all further draws miss."""
    fatal: Collection[Status] = FATAL
    """Statuses that end the verdict; any other is a lack."""
    is_effect: bool = False
    """True if a narrow miss does not count where plain calls miss as narrowly."""
    is_mixed: bool = False
    """True for all kinds of values together, of which a miss of one kind alone says more."""
    if_mixed: bool | None = None
    """Made only if these decided and were right (True), or only if not (False)."""


def of_values(variation: Variation, on: On, if_mixed: bool | None = None) -> LevelCheck:
    """Return the check of one variation of the inputs."""
    return LevelCheck(
        lack=variation.lack,
        on=on,
        make=lambda battery, trial: battery.vary(trial, variation),
        applies=lambda _, reference: variation.changes(reference.inputs),
        narrow=NARROW if variation.is_usual else math.inf,
        if_mixed=if_mixed,
    )


def resembling(variations: Sequence[Variation], on: On) -> list[LevelCheck]:
    """Return the checks of inputs that resemble those of the call before."""
    return [
        replace(of_values(one, on), make=functools.partial(Battery.resembling, variation=one), fatal=frozenset(Status))
        for one in variations
    ]


def _few_places(draws: int, on: On) -> LevelCheck:
    make = functools.partial(Battery.in_few_places, draws=draws)
    return LevelCheck(lack="values", on=on, make=make, applies=lambda _, reference: few_places(reference.inputs))


def beyond_task(*, batch_invariant: bool = False) -> list[LevelCheck]:
    """Return the checks of the levels beyond `task`, in their order. Smaller batches are checked on request."""

    def follows(candidate: Candidate, _: Reference) -> bool:
        return candidate.follows

    def matches(candidate: Candidate, _: Reference) -> bool:
        return candidate.matches

    together = functools.partial(Battery.weights, apart=False)
    return [
        LevelCheck(lack="frozen_weights", on=On.OWN_LONG, make=together, applies=matches),
        LevelCheck(lack="frozen_weights", on=On.OWN_SHORT, make=Battery.weights, applies=matches),
        LevelCheck(lack="values", on=On.OWN_SHORT, make=Battery.small_weights, applies=follows),
        LevelCheck(lack="values", on=On.OWN, make=lambda battery, trial: battery.vary(trial, MIXED), is_mixed=True),
        _few_places(GLANCES, On.OWN),
        of_values(secrets.choice(VALID), On.OWN_SHORT, if_mixed=True),
        LevelCheck(
            lack="batch_invariance",
            on=On.OWN,
            make=batch_invariance.batch_invariant,
            applies=lambda *_: batch_invariant,
        ),
        LevelCheck(lack="cases", on=On.CASES, make=Battery.essentials),
        LevelCheck(lack="shapes", on=On.DERIVED, make=Battery.essentials, fatal=FATAL - STRAY_WRITES),
        LevelCheck(lack="shapes", on=On.LARGER, make=Battery.right_once, fatal=FATAL - STRAY_WRITES),
        LevelCheck(lack="frozen_weights", on=On.MOST_LONG, make=Battery.weights, applies=follows),
        LevelCheck(lack="values", on=On.MOST_LONG, make=Battery.small_weights, applies=follows),
        *resembling(RESEMBLING, On.MOST_LONG),
        *(of_values(variation, On.MOST) for variation in VARIATIONS),
        _few_places(2 * GLANCES, On.SMALLER),
        *(of_values(variation, On.OWN_TOO, if_mixed=False) for variation in VALID),
        LevelCheck(
            lack="values",
            on=On.LAYOUTS,
            make=Battery.other_numbers,
            applies=lambda _, reference: reference.inputs.has(is_number),
            is_effect=True,
        ),
        LevelCheck(
            lack="unseen_integers",
            on=On.LAYOUTS,
            make=Battery.unseen_integers,
            applies=lambda _, reference: reference.indices.lengths,
            is_effect=True,
        ),
        LevelCheck(lack="output_reuse", on=On.MOST, make=Battery.kept_results, is_effect=True),
        *(
            LevelCheck(lack=lack, on=On.LAYOUTS, make=functools.partial(Battery.laid_out, lack=lack), is_effect=True)
            for lack in LAYOUTS
        ),
        # The last one: folded weights stay stale after it.
        LevelCheck(lack="weights_in_place", on=On.MOST, make=Battery.updated_in_place, applies=follows, is_effect=True),
    ]
