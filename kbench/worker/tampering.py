"""Functions of torch that a solution must not replace.

A worker remembers the functions before it imports a solution and compares them with what is there after each answer.
It finds replacements made in Python. Clocks may be replaced: what a worker claims about time decides nothing.
"""

import sys
from collections.abc import Iterator, Mapping
from operator import attrgetter, is_
from typing import Any

MODULES = ("torch", "torch.cuda", "torch.linalg", "torch.nn.functional")
"""Modules whose functions and classes must stay what they are."""
CLASSES = ("torch.Tensor", "torch.cuda.CUDAGraph", "torch.cuda.Stream")
"""Classes whose methods must."""
CHANGED_BY_TORCH = frozenset({"torch.manual_seed", "torch.Storage"})
"""`torch._dynamo` wraps the first when it is imported; `torch.set_default_dtype` binds the second to another class."""


CODE = attrgetter("__code__")


class Functions:
    """The functions of one place, a module or a class, by their names; None: a name that must stay absent."""

    def __init__(self, place: Mapping[str, Any], functions: Mapping[str, Any]):
        self._place = place
        self._names, self._values = tuple(functions), tuple(functions.values())
        self._coded = tuple(value for value in self._values if hasattr(value, "__code__"))
        self._codes = tuple(map(CODE, self._coded))

    def replaced(self) -> Iterator[str]:
        """Yield the names of those that are others now, gone, or of other code. This is asked after each answer."""
        if all(map(is_, map(self._place.get, self._names), self._values)) and all(
            map(is_, map(CODE, self._coded), self._codes)
        ):
            return
        codes = dict(zip(map(id, self._coded), self._codes, strict=True))
        for name, value in zip(self._names, self._values, strict=True):
            if self._place.get(name) is not value or getattr(value, "__code__", None) is not codes.get(id(value)):
                yield name


class Originals:
    """The functions as they are now, to be compared with what is there later."""

    def __init__(self) -> None:
        self._places = tuple(_places())

    def replaced(self) -> tuple[str, ...]:
        """Name what was replaced since, for example `torch.Tensor.copy_`; sorted."""
        found = {f"{owner}.{name}" for owner, functions in self._places for name in functions.replaced()}
        return tuple(sorted(found - CHANGED_BY_TORCH))


def _places() -> Iterator[tuple[str, Functions]]:
    """Yield each module, and each class and its bases, under the name that its functions are known by."""
    for name in MODULES:
        if name in sys.modules:
            module = vars(sys.modules[name])
            yield name, Functions(module, _functions(module))
    for name in CLASSES:
        path, _, attribute = name.rpartition(".")
        owner = getattr(sys.modules.get(path), attribute, None)
        if isinstance(owner, type):
            places = [vars(each) for each in owner.__mro__ if each is not object]
            own, *bases = map(_functions, places)
            # A method of a base class can be replaced by one of the same name in the class itself.
            inherited = dict.fromkeys(method for base in bases for method in base if method not in places[0])
            for place, functions in zip(places, ({**inherited, **own}, *bases), strict=True):
                yield name, Functions(place, functions)


def _functions(place: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in place.items() if callable(value) and not name.startswith("__")}
