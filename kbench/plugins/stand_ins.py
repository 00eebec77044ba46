"""Stand-ins for modules that torch's shape functions import, and hardly use where all numbers are plain.

The real ones take a processor 1.3 s (torch.compile) and 0.3 to 0.5 s (sympy and symbolic shapes).
"""

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

Called = TypeVar("Called")


def as_it_is(value: Any, *_: Any, **__: Any) -> Any:
    """Return what is given: a number that is not symbolic is its own hint, and holds or does not hold."""
    return value


def are_equal(one: Any, other: Any) -> bool:
    """Compare two numbers, or two sequences of them, which may be a tuple and a list."""
    return bool(tuple(one) == tuple(other) if isinstance(one, tuple | list) else one == other)


MEMBERS: dict[str, dict[str, Any]] = {
    "torch._dynamo": {"disable": lambda function, *_, **__: function},
    "torch.fx.experimental.symbolic_shapes": {
        **dict.fromkeys(("expect_true", "guard_or_false", "guard_or_true", "statically_known_true"), as_it_is),
        **dict.fromkeys(("guard_size_oblivious", "guard_int", "guarding_hint_or_throw", "size_hint"), as_it_is),
        **dict.fromkeys(("has_guarding_hint", "has_hint"), lambda _: True),
        "is_nested_int": lambda _: False,
        "sym_and": lambda *values: all(values),
        "sym_or": lambda *values: any(values),
        "sym_eq": are_equal,
    },
    "sympy": {"Basic": type("Basic", (), {"__doc__": "No number here is symbolic."})},
}
"""By module, what there is of it until more is wanted. torch gives the functions these results for plain numbers."""
WORDS = ("compile", "dynamo", "sympy")
"""A problem's file that has one of them may want more, in ways that a stand-in does not see."""


class StandIn(ModuleType):
    """Has some members of a module; asked for any other, all stand-ins leave and it imports the module."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        leave()
        return getattr(importlib.import_module(self.__name__), name)

    def answer(self, name: str, plainly: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Answer as a member for plain numbers, and as the real one whoever has kept it when this has left."""
        stands_in = sys.modules.get(self.__name__) is self
        return (plainly if stands_in else getattr(self, name))(*given, **named)


def call_without_slow_imports(path: Path, call: Callable[[], Called]) -> Called:
    """Make a call with stand-ins; once more without, where it imports a part of a module that one stands in for."""
    try:
        with without_slow_imports(path):
            return call()
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(tuple(f"{name}." for name in MEMBERS)):
            raise
    return call()


@contextlib.contextmanager
def without_slow_imports(path: Path) -> Iterator[None]:
    """Have stand-ins inside a `with` block for what is not imported yet, unless the problem's file may want more."""
    text = path.read_text(errors="replace")
    for name, members in () if any(word in text for word in WORDS) else MEMBERS.items():
        if name not in sys.modules:
            sys.modules[name] = stand_in = StandIn(name)
            for own, value in members.items():
                is_class = isinstance(value, type)
                vars(stand_in)[own] = value if is_class else functools.partial(stand_in.answer, own, value)
    try:
        importlib.import_module("torch.fx.experimental._config")  # as the real ones do, and no more than settings
        yield
    finally:
        leave()


def leave() -> None:
    """Take all stand-ins away; whoever still has one gets the real module's members from now on."""
    for name, members in MEMBERS.items():
        module = sys.modules.get(name)
        if isinstance(module, StandIn):
            del sys.modules[name]
            parent, _, own = name.rpartition(".")
            if parent in sys.modules and vars(sys.modules[parent]).get(own) is module:
                delattr(sys.modules[parent], own)
            for member in members:
                vars(module).pop(member, None)
