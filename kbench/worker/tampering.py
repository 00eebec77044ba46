"""What a solution must leave as it found it: the clocks, and what torch itself offers.

A worker remembers the functions before it imports a solution and compares them with what is there after each answer.
It finds what is replaced in the open, in Python. Whoever hides better gains nothing: the judge's clock decides.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MODULES = ("time", "torch", "torch.cuda", "torch.linalg", "torch.nn.functional")
"""Modules whose functions and classes must stay what they are."""
CLASSES = (
    *("torch.Event", "torch.Stream", "torch.Tensor"),
    *("torch.cuda.CUDAGraph", "torch.cuda.Event", "torch.cuda.Stream"),
)
"""Classes whose methods must."""
CHANGED_BY_TORCH = frozenset({"torch.manual_seed", "torch.Storage"})
"""`torch._dynamo` wraps the first when it is imported; `torch.set_default_dtype` binds the second to another class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A module, or a class and its bases: its name, where its names are looked up, and the functions of each place."""

    name: str
    places: tuple[Mapping[str, Any], ...]
    functions: tuple[dict[str, tuple[Any, Any]], ...]
    """By name, a function and its code."""

    def replaced(self) -> Iterator[str]:
        """Yield the full names of the functions that are others now, or gone."""
        for place, functions in zip(self.places, self.functions, strict=True):
            for attribute, (value, code) in functions.items():
                now = place.get(attribute)
                if now is not value or getattr(now, "__code__", None) is not code:
                    yield f"{self.name}.{attribute}"


class Originals:
    """The functions as they are now, to be compared with what is there later."""

    def __init__(self) -> None:
        self._namespaces = tuple(_namespaces())

    def replaced(self) -> tuple[str, ...]:
        """Name what was replaced since, for example `torch.cuda.Event.elapsed_time`; sorted. Some 0.2 ms."""
        found = {path for namespace in self._namespaces for path in namespace.replaced()}
        return tuple(sorted(found - CHANGED_BY_TORCH))


def _namespaces() -> Iterator[Namespace]:
    for name in MODULES:
        if name in sys.modules:
            place = vars(sys.modules[name])
            yield Namespace(name=name, places=(place,), functions=(_functions(place),))
    for name in CLASSES:
        module, _, attribute = name.rpartition(".")
        owner = getattr(sys.modules.get(module), attribute, None)
        if isinstance(owner, type):
            places = tuple(vars(each) for each in owner.__mro__ if each is not object)
            functions = tuple(map(_functions, places))
            # A method of a base class can be replaced by one of the same name in the class itself.
            inherited = {method: (None, None) for base in functions[1:] for method in base if method not in places[0]}
            yield Namespace(name=name, places=places, functions=({**inherited, **functions[0]}, *functions[1:]))


def _functions(place: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {
        name: (value, getattr(value, "__code__", None))
        for name, value in place.items()
        if callable(value) and not name.startswith("__")
    }
