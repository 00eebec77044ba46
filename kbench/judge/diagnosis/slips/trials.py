"""Runs of the reference in which one operator is done otherwise."""

from collections.abc import Collection, Iterator
from typing import Any

from torch import Tensor

from kbench.judge.diagnosis.slips import functions, norms, orders, reductions, windows
from kbench.judge.diagnosis.slips.call import OperatorCall, Slip
from kbench.numerics.operators import OperatorMode

TABLES = (reductions, norms, windows, functions, orders)
REMEMBERED = 8
"""Chosen: as many results are kept to tell which operator made an argument; one has few between it and its use."""
Places = dict[tuple[str, str], list[int]]
"""By code and sentence of a slip, the operators of a run at which it is possible, counted from its beginning."""


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
        self.places: Places = {}

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._number += 1
        maker = next((call for made, call in reversed(self._made) if args and made is args[0]), None)
        call = OperatorCall(func=func, args=args, kwargs=kwargs or {}, before=maker)
        if not self._sentence:
            for code, sentence, _ in slips_of(call):
                self.places.setdefault((code, sentence), []).append(self._number)
        if self._number in self._at:
            found = next(run for _, sentence, run in slips_of(call) if sentence == self._sentence)()
            if call.is_in_place:
                found = args[0].copy_(found)
        else:
            found = func(*args, **(kwargs or {}))
        first = found[0] if isinstance(found, tuple) and found else found
        if isinstance(first, Tensor) and not call.is_in_place:
            self._made = [*self._made[1 - REMEMBERED :], (first, call)]
        return found


def groups(places: Places) -> Iterator[tuple[str, str, list[int], str]]:
    """Yield code and sentence of each slip at all of its places, then at each alone: their numbers, and which."""
    for (code, sentence), repeated in places.items():
        numbers = list(dict.fromkeys(repeated))
        yield code, sentence, numbers, "" if len(numbers) == 1 else f"in all {len(numbers)} places"
        for count, number in enumerate(numbers, start=1):
            if len(numbers) > 1:
                yield code, sentence, [number], f"at place {count} of {len(numbers)}"
