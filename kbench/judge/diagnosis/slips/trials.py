"""Runs of the reference in which one operator is done otherwise."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from kbench.judge.diagnosis.slips import functions, norms, orders, products, reductions, windows
from kbench.judge.diagnosis.slips.call import OperatorCall, Slip
from kbench.numerics.operators import OperatorMode

TABLES = (reductions, norms, products, windows, functions, orders)
REMEMBERED = 8
"""Chosen: as many results are kept to tell which operator made an argument; one has few between it and its use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One operator of a run, counted from its beginning, and a slip that is possible there."""

    number: int
    code: str
    sentence: str


def slips_of(call: OperatorCall) -> Iterator[Slip]:
    """Yield every slip of one call."""
    for table in TABLES:
        yield from table.slips(call)


class Slipping(OperatorMode):
    """Runs operators as they are, but for one slip at some places; without one it notes what is possible."""

    def __init__(self, sentence: str = "", at: Collection[int] = ()):
        super().__init__()
        self._sentence = sentence
        self._at = at
        self._number = -1
        self._made: list[tuple[Tensor, OperatorCall]] = []
        self.places: list[Place] = []

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._number += 1
        call = OperatorCall(func=func, args=args, kwargs=kwargs or {}, before=self._maker(args))
        if not self._sentence:
            self.places += [Place(number=self._number, code=s.code, sentence=s.sentence) for s in slips_of(call)]
        if self._number not in self._at:
            return self._remembered(func(*args, **(kwargs or {})), call)
        found = next(slip for slip in slips_of(call) if slip.sentence == self._sentence).run()
        if call.is_in_place:
            found = args[0].copy_(found)
        return self._remembered(found, call)

    def _maker(self, args: Any) -> OperatorCall | None:
        first = args[0] if args else None
        return next((call for made, call in reversed(self._made) if made is first), None)

    def _remembered(self, result: Any, call: OperatorCall) -> Any:
        first = result[0] if isinstance(result, tuple) and result else result
        if isinstance(first, Tensor) and not call.is_in_place:
            self._made = [*self._made[1 - REMEMBERED :], (first, call)]
        return result


def groups(places: list[Place]) -> Iterator[tuple[Place, list[int], str]]:
    """Yield each slip at all of its places, then at each alone: with the numbers of these, and which they are."""
    by_slip: dict[str, list[Place]] = {}
    for place in places:
        by_slip.setdefault(place.sentence, []).append(place)
    for alike in by_slip.values():
        numbers = list(dict.fromkeys(place.number for place in alike))
        yield alike[0], numbers, "" if len(numbers) == 1 else f"in all {len(numbers)} places"
        for count, number in enumerate(numbers, start=1):
            if len(numbers) > 1:
                yield alike[0], [number], f"at place {count} of {len(numbers)}"
