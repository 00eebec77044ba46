"""Other shapes of a problem that lists none: its constants made smaller and larger, if the reference accepts them.

Runs in a judge, on torch's `meta` device: no memory, no arithmetic (docs/adr/0007-levels.md).
"""

import functools
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbench.catalog import problem as problems
from kbench.catalog import source
from kbench.catalog.containers import tensors as tensors_of

MAX_CONSTANTS = 12
"""Largest number of constants that are tried; each costs a few constructions without memory."""
MAX_ELEMENTS = 1 << 25
"""Largest number of elements of derived inputs, and of all parameters and outputs of a larger shape."""
MAX_CALLED_ELEMENTS = 1 << 20
"""Largest integer inputs of a call on the CPU, in elements. Others may have a sixteenth, and as many parameters."""
CALLED_ELEMENTS = 1 << 12
"""Elements to draw over all calls: with only three indices, one out of range could be missed by chance."""
MAX_CALLS = 100
MAX_LONG_ELEMENTS = 1 << 22
"""Largest number of elements of the shape with one long size, which has most of the calls."""
LONG = 1031
"""A prime larger than the widest thread blocks, for a size that cannot be larger than the problem's own."""
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Address of an object in memory, which differs in each import of a file."""
SHORT = (5, 37, 29, 23, 19, 17, 13, 11, 7, 3)
"""Distinct primes, so that swapped dimensions show; none is a multiple of a vector or a warp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """Overrides of the constants that make other shapes, or why there are none."""

    cases: list[dict[str, Any]] = field(default_factory=list)
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallShapes:
    """The result of one set of constants: shapes of the inputs, arguments of the constructor."""

    inputs: tuple[tuple[int, ...], ...]
    arguments: str
    integers: bool
    """True if inputs have integers, which may be indices: on `meta` none can be found out of range."""

    @property
    def elements(self) -> int:
        """Elements of all input tensors."""
        return sum(math.prod(shape) for shape in self.inputs)


def derive(path: Path, overrides: Mapping[str, Any], report: problems.TellStep = problems.unheard) -> Derived:
    """Find up to four other shapes of a problem file beside its `overrides`.

    The first changes what the constructor does not use: the largest size is larger than the problem's own, all others
    are short. The second has all sizes short. The others make larger what the first does not.
    """
    probe = _Probe(path, overrides, report)
    own = probe.look({})
    if own is None:
        return Derived(reason="its inputs cannot be described without making them")
    of_call, of_model = probe.classified(own)
    if not of_call and not of_model:
        return Derived(reason="no constant of the file changes the shape of its inputs")
    short = probe.shorten(of_call, own)
    shortest = probe.shorten([*of_call, *of_model], own) if of_model else short
    first = probe.with_a_long_one(short)
    kept = [case for case in (first, shortest) if case and probe.fits(case, max(own.elements, MAX_LONG_ELEMENTS))]
    left = [name for name in (*of_call, *of_model) if not probe.is_larger(first, name)]
    kept += probe.larger_ones(shortest, left, min(MAX_ELEMENTS, 2 * own.elements))
    unlike = [case for number, case in enumerate(kept) if case not in kept[:number]]
    return Derived(cases=unlike, reason="" if unlike else "the reference accepts no other shape")


class _Probe:
    """Evaluates a problem file with constants changed, on the meta device."""

    def __init__(self, path: Path, overrides: Mapping[str, Any], report: problems.TellStep):
        self._path = path
        self._report = report
        self._overrides = dict(overrides)
        self.constants = {**source.parse(path).constants(), **self._overrides}

    def _load(self, changed: Mapping[str, Any], device: str = "meta") -> problems.LoadedProblem:
        return problems.load(self._path, {**self._overrides, **changed}, device, self._report)

    def look(self, changed: Mapping[str, Any]) -> CallShapes | None:
        """Return the result of these constants; None if the file refuses them."""
        try:
            loaded = self._load(changed)
            inputs = loaded.inputs(seed=0)
            arguments = ADDRESS.sub("", repr(loaded.init_inputs()))
        except Exception:  # noqa: BLE001 - the problem's code may raise anything at sizes that it was not written for
            return None
        tensors = tensors_of(inputs)
        return CallShapes(
            inputs=tuple(tuple(t.shape) for t in tensors),
            arguments=arguments,
            integers=any("int" in str(t.dtype) for t in tensors),
        )

    def classified(self, own: CallShapes) -> tuple[list[str], list[str]]:
        """Return the constants that change only the inputs, and those that also change the constructor's arguments."""
        of_call, of_model = list[str](), list[str]()
        resizable = [name for name, value in self.constants.items() if sizes_of(value)]
        for name in resizable[:MAX_CONSTANTS]:
            seen = self.look({name: smaller(self.constants[name], SHORT[0])[0]})
            if seen is not None and seen.inputs != own.inputs:
                (of_call if seen.arguments == own.arguments else of_model).append(name)
        return of_call, of_model

    def fits(self, changed: Mapping[str, Any], elements: int) -> bool:
        """Return whether the inputs can be made and have at most `elements` elements."""
        seen = self.look(changed)
        return seen is not None and seen.elements <= elements

    def runs(self, changed: Mapping[str, Any], most: float = math.inf) -> bool:
        """Return whether the reference can be constructed and called with these constants, and returns something.

        Its parameters and outputs may have `most` elements.
        """
        import torch

        device, calls = self._trial(changed)
        try:
            loaded = self._load(changed, device)
            model = loaded.model(seed=0)
            most -= sum(parameter.numel() for parameter in model.parameters())
            if most < 0:
                return False
            with torch.no_grad():
                outputs = [model(*loaded.inputs(seed)) for seed in range(calls)]
        except Exception:  # noqa: BLE001 - as above
            return False
        sizes = [output.numel() for output in outputs if hasattr(output, "numel")]
        return all(sizes) and sum(sizes) <= most

    @functools.cached_property
    def _runs_at_all(self) -> bool:
        return self.runs({})

    def _takes(self, changed: Mapping[str, Any], elements: int, most: float = math.inf) -> bool:
        """Return whether the reference takes inputs of so many elements, as far as it runs without memory at all."""
        return self.fits(changed, elements) and (self.runs(changed, most) or not self._runs_at_all)

    def _trial(self, changed: Mapping[str, Any]) -> tuple[str, int]:
        """Return the device on which to call the reference, and the number of calls.

        Small inputs with integers go to the CPU: an index out of range raises there, and ends the judge on a GPU. So do
        small calls, because a first call without memory imports the compiler, which takes 1.3 s.
        """
        seen = self.look(changed)
        if seen is None or not 0 < seen.elements <= MAX_CALLED_ELEMENTS:
            return "meta", 1
        if seen.integers:
            return "cpu", min(1 + CALLED_ELEMENTS // seen.elements, MAX_CALLS)
        is_small = 16 * seen.elements <= MAX_CALLED_ELEMENTS and self._has_small_model(changed)
        return "cpu" if is_small else "meta", 1

    def _has_small_model(self, changed: Mapping[str, Any]) -> bool:
        try:
            model = self._load(changed).model(seed=0)
        except Exception:  # noqa: BLE001 - as above
            return False
        return sum(parameter.numel() for parameter in model.parameters()) <= MAX_CALLED_ELEMENTS

    def shorten(self, names: Sequence[str], own: CallShapes) -> dict[str, Any]:
        """Return smaller values for as many of these constants as the reference accepts together.

        It tries different values, then equal ones where they were equal (first for integers, which index something),
        then one after the other. A reference that does not run on the meta device is called on the real one later.
        """
        wanted = {name: self.constants[name] for name in names}
        different = {name: smaller(v, size)[0] for (name, v), size in zip(wanted.items(), SHORT, strict=False)}
        sizes = dict(zip(dict.fromkeys(size for v in wanted.values() for size in sizes_of(v)), SHORT, strict=False))
        alike = {name: smaller(v, sizes.get(max(sizes_of(v)), SHORT[0]))[0] for name, v in wanted.items()}
        for attempt in (alike, different) if own.integers else (different, alike):
            if self.runs(attempt):
                return attempt
        if not self._runs_at_all:
            return different
        chosen: dict[str, Any] = {}
        for (name, value), size in zip(wanted.items(), SHORT, strict=False):
            attempts = ({**chosen, name: n} for n in smaller(value, size))
            chosen = next((attempt for attempt in attempts if self.runs(attempt)), chosen)
        return chosen

    def with_a_long_one(self, short: Mapping[str, Any]) -> dict[str, Any]:
        """Return short constants with the largest of them, and what equals it, longer than it is, or LONG."""
        sizes = {name: (_largest(self.constants[name]), _largest(value)) for name, value in short.items()}
        most = max((size for size, _ in sizes.values()), default=0)
        equal = next((pair for pair in sizes.values() if pair[0] == most), None)
        alike = [name for name, pair in sizes.items() if pair == equal]
        for change in (larger, lambda value: smaller(value, LONG)[0]) if alike else ():
            attempt = {**short, **{name: change(self.constants[name]) for name in alike}}
            if self._takes(attempt, MAX_LONG_ELEMENTS):
                return attempt
        return dict(short)

    def larger_ones(self, short: Mapping[str, Any], names: Sequence[str], elements: int) -> list[dict[str, Any]]:
        """Return short constants with the named ones larger than they are: in one shape, or else in two."""
        if together := self._lengthened(short, names, elements):
            return [together]
        made: list[dict[str, Any]] = []
        for _ in range(2):
            shape: dict[str, Any] = {}
            for name in names:
                shape = self._lengthened(shape or short, [name], elements) or shape
            names = [name for name in names if not self.is_larger(shape, name)]
            made += [shape] if shape else []
        return made

    def _lengthened(self, short: Mapping[str, Any], names: Sequence[str], elements: int) -> dict[str, Any]:
        """Return short constants with the named ones larger than they are: odd, or doubled; empty if that fails."""
        for change in (larger, doubled) if names else ():
            attempt = {**short, **{name: change(self.constants[name]) for name in names}}
            if self._takes(attempt, elements, MAX_ELEMENTS):
                return attempt
        return {}

    def is_larger(self, shape: Mapping[str, Any], name: str) -> bool:
        """Return whether a shape has a larger constant than the problem."""
        return name in shape and _largest(shape[name]) > _largest(self.constants[name])


def sizes_of(value: Any) -> list[int]:
    """Return the sizes in a constant that could be smaller: an integer of 2 or more, or those in a list of integers."""
    values = list(value) if isinstance(value, list | tuple) else [value]
    if not all(type(size) is int for size in values):
        return []
    return [size for size in values if size >= 2]


def _largest(value: Any) -> int:
    return max(sizes_of(value), default=0)


def _resized(value: Any, change: Callable[[int], int]) -> Any:
    """Return a constant with its size changed, or the sizes in a list; there, sizes below 5 stay."""
    if isinstance(value, list | tuple):
        return type(value)(change(n) if n >= SHORT[0] else n for n in value)
    return change(value)


def smaller(value: Any, size: int) -> list[Any]:
    """Return smaller values: the largest prime up to `size` below it, or 1, and its half."""
    below = _resized(value, lambda own: next((n for n in range(min(size, own - 1), 1, -1) if is_prime(n)), 1))
    half = _resized(value, lambda n: n // 2)
    return [below] if below == half else [below, half]


def larger(value: Any) -> Any:
    """Return a larger value: the next prime."""
    return _resized(value, lambda own: next(n for n in itertools.count(own + 1) if is_prime(n)))


def doubled(value: Any) -> Any:
    """Return twice a value, which groups and halves still divide."""
    return _resized(value, lambda n: 2 * n)


def is_prime(value: int) -> bool:
    """Return whether a number of 2 or more is a prime."""
    return all(value % divisor for divisor in range(2, int(value**0.5) + 1))
