"""The table of checks: the property that each is about, the shape that carries it, and the misses that do not count."""

import functools
import math
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from torch import Tensor

from kbench.catalog.containers import over_leaves
from kbench.core.model import Status
from kbench.core.values import NARROW
from kbench.judge.candidate import Candidate
from kbench.judge.exchange import Trial
from kbench.judge.reference.drawing import is_number
from kbench.judge.reference.expected import unlike
from kbench.judge.reference.oracle import batch_size
from kbench.judge.reference.reference import Reference
from kbench.judge.refusal import FATAL, STRAY_WRITES, RefusalError
from kbench.judge.verify.battery import LAYOUTS, Battery
from kbench.judge.verify.variations import (
    GLANCES,
    RESEMBLING,
    VARIATIONS,
    Variation,
    few_places,
)
from kbench.numerics import elements

Shape = TypeVar("Shape")


class On(StrEnum):
    """Shapes that carry a check."""

    OWN = "its own"
    CASES = "every other case of the problem"
    DERIVED = "the first ones that the problem does not list"
    LARGER = "further ones that the problem does not list"
    SMALLER = "a smaller one that holds"
    MOST = "a smaller one that holds, else its own"
    CASE = "a case that holds, else its own"


def carrier(on: On, own: Shape, cases: Sequence[Shape] = (), derived: Sequence[Shape] = ()) -> Shape | None:
    """Return the shape that carries a check, if any. At `cases` and `derived` shapes the solution was right."""
    small = next(iter([*cases, *derived]), None)
    return {
        On.OWN: own,
        On.SMALLER: small,
        On.MOST: own if small is None else small,
        On.CASE: next(iter(cases), own),
    }[on]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelCheck:
    """One row."""

    lack: str
    """Property that a solution lacks if it fails: a key of `levels.PROPERTIES`."""
    on: On
    make: Callable[[Battery, Trial], object]
    """Raises RefusalError if the solution fails."""
    applies: Callable[[Candidate, Reference], object] = lambda *_: True
    narrow: float = NARROW
    """Largest finite excess of a miss that counts only if all further draws miss."""
    fatal: Collection[Status] = FATAL
    """Statuses that end the verdict; any other is a lack."""
    is_effect: bool = False
    """True if a narrow miss does not count where plain calls miss as narrowly."""


def of_values(variation: Variation, on: On) -> LevelCheck:
    """Return the check of one variation of the inputs."""
    return LevelCheck(
        lack=variation.lack,
        on=on,
        make=lambda battery, trial: battery.vary(trial, variation),
        applies=lambda _, reference: variation.changes(reference.inputs),
        narrow=NARROW if variation.is_usual else math.inf,
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


def _follows(candidate: Candidate, _: Reference) -> bool:
    return candidate.follows


def _matches(candidate: Candidate, _: Reference) -> bool:
    return candidate.matches


def beyond_task(*, is_long: bool = False, batch_invariant: bool = False) -> list[LevelCheck]:
    """Return the checks of the levels beyond `task`, in their order.

    If calls `is_long` at the own shape, a smaller one has most checks. Smaller batches are checked on request.
    """
    small_weights = functools.partial(LevelCheck, lack="values", make=Battery.small_weights, applies=_follows)
    weights = functools.partial(LevelCheck, lack="frozen_weights", make=Battery.weights)
    if is_long:
        together = functools.partial(Battery.weights, apart=False)
        at_own = [LevelCheck(lack="frozen_weights", on=On.OWN, make=together, applies=_matches)]
        later = [weights(on=On.MOST, applies=_follows), small_weights(on=On.MOST), *resembling(RESEMBLING, On.MOST)]
    else:
        at_own, later = [weights(on=On.OWN, applies=_matches), small_weights(on=On.OWN)], []
    rows = [LevelCheck(lack="batch_invariance", on=On.OWN, make=invariant_in_batch)] if batch_invariant else []
    derived = functools.partial(LevelCheck, lack="shapes", fatal=FATAL - STRAY_WRITES)
    return [
        *at_own,
        LevelCheck(lack="values", on=On.OWN, make=functools.partial(Battery.values, one_kind=not is_long)),
        _few_places(GLANCES, On.OWN),
        *rows,
        LevelCheck(lack="cases", on=On.CASES, make=Battery.essentials),
        derived(on=On.DERIVED, make=Battery.essentials),
        derived(on=On.LARGER, make=Battery.right_once),
        *later,
        *(of_values(variation, On.MOST) for variation in VARIATIONS),
        _few_places(2 * GLANCES, On.SMALLER),
        *_effects(On.MOST if is_long else On.CASE),
    ]


def _effects(laid_out_on: On) -> list[LevelCheck]:
    """Return the checks whose narrow misses do not count where plain calls miss as narrowly."""
    effect = functools.partial(LevelCheck, on=laid_out_on, is_effect=True)
    return [
        effect(lack="values", make=Battery.other_numbers, applies=lambda _, reference: reference.inputs.has(is_number)),
        effect(
            lack="unseen_integers",
            make=Battery.unseen_integers,
            applies=lambda _, reference: reference.indices.lengths,
        ),
        effect(lack="output_reuse", on=On.MOST, make=Battery.kept_results),
        *(effect(lack=lack, make=functools.partial(Battery.laid_out, lack=lack)) for lack in LAYOUTS),
        # The last one: folded weights stay stale after it.
        effect(lack="weights_in_place", on=On.MOST, make=Battery.updated_in_place, applies=_follows),
    ]


def invariant_in_batch(battery: Battery, trial: Trial) -> None:
    """Compare rows of a whole batch with the same rows in smaller batches.

    Rows are the entries of the first dimension, if every output has as many of them and the reference computes each
    from the same rows of the inputs. Raises RefusalError where one bit differs.
    """
    reference = trial.reference
    whole = reference.expect(reference.arguments())
    count = batch_size(whole) or 0
    reply = trial.call([whole])
    trial.judge_values(reply.slots[0], whole)
    parts = smaller_batches(count)
    kept = [[t[rows].clone() for t in trial.arena.outputs(reply.slots[0])] for rows in parts]
    trial.take_back()
    arguments = [*whole.recalled()]
    for rows, of_whole in zip(parts, kept, strict=True):
        part = reference.try_expect(rows_of(arguments, count, rows), any_shape=True)
        if isinstance(part, Exception) or any(map(unlike, part.tensors, (t[rows] for t in whole.tensors))):
            break
        with trial.beside(part) as other:
            slot = other.call([part]).slots[0]
            other.judge_values(slot, part)
            require_same_bits(rows, count, of_whole, other.arena.outputs(slot), trial.candidate.log)
    else:
        if parts:
            return
    battery.note("skipped_batches", "skipped batches of other sizes: outputs are not computed row by row from inputs")


def smaller_batches(count: int) -> list[slice]:
    """Return 1 to 16 rows and about half of them, at random places; nothing for fewer than two rows."""
    return [
        slice(start, start + size)
        for size in dict.fromkeys((1, 2, 4, 8, 16, (count + 1) // 2))
        if size < count
        for start in [secrets.randbelow(count - size + 1)]
    ]


def rows_of(arguments: list[Any], count: int, rows: slice) -> list[Any]:
    """Return arguments with some of the rows of every tensor that has `count` of them."""

    def some(leaf: Any) -> Any:
        has_rows = isinstance(leaf, Tensor) and leaf.dim() > 0 and leaf.shape[0] == count
        return leaf[rows].clone() if has_rows else leaf

    found: list[Any] = over_leaves(arguments, some)
    return found


def require_same_bits(rows: slice, count: int, whole: list[Tensor], part: list[Tensor], log: str) -> None:
    """Raise RefusalError if an output differs in a bit between the whole batch and a smaller one."""
    for number, (one, other) in enumerate(zip(whole, part, strict=True)):
        if not elements.same_bits(one, other):
            size, differ = rows.stop - rows.start, int((one != other).sum())
            batch = f"row {rows.start} alone differs" if size == 1 else f"{size} rows alone differ"
            reason = f"output {number}: {batch} from the same in the batch of {count}, in {differ:,} elements"
            raise RefusalError(Status.WRONG_VALUE, f"{reason} of {one.numel():,}", log)
