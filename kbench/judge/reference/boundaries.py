"""Discontinuous outputs: other results that a reference could give where fp64 lies near a boundary.

A rounding, a cast to integers or 8 bits, a comparison, and a choice among values (`argmax`, `topk`, `sort`) are
decisions. Two honest results may decide differently near a boundary.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kbench.core.values import FACTOR, MAX_BOUNDARY_SHARE, codes_are_right
from kbench.numerics import codes, elements, tails
from kbench.numerics.operators import OperatorMode

LARGER_SHARE = 1 / 8
"""Share of elements that exceed the error which the reference is taken to have before a decision."""
UP_AND_DOWN = ((1.0, False), (-1.0, False))
SHIFTS = (*UP_AND_DOWN, (1.0, True), (-1.0, True), (1 / 32, False), (-1 / 32, False), (1 / 32, True), (-1 / 32, True))
"""Shifts of all values before a rounding: in allowed errors, and whether away from zero, as by another scale.

By a smaller shift, fewer terms of one sum, or codes of one word, change at once.
"""

ROUNDINGS = {
    *("round", "floor", "ceil", "trunc", "sign", "round_", "floor_", "ceil_", "trunc_", "sign_"),
    *("floor_divide", "remainder", "fmod", "gt", "ge", "lt", "le", "bucketize"),
}
"""Operators that decide by their first argument. `eq` and `ne` are absent: for them each value is a boundary."""
CHOICES = {"argmax", "argmin", "topk", "sort", "max", "min", "kthvalue", "median", "mode", "cummax", "cummin"}
"""Operators that return indices into their first argument."""
POOLS = {
    f"{kind}max_pool{dims}d{rest}": dims for dims in (2, 3) for kind, rest in (("", "_with_indices"), ("adaptive_", ""))
}
"""Operators that return indices into the last dimensions of their first argument, and how many these are."""

ReferenceRun = Callable[[], Sequence[Tensor] | None]
Shift = tuple[float, float]
"""The error that a value before a decision may have: absolute, and relative to the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The values that one operator decided by."""

    sample: Tensor
    rms: float
    source: Tensor | None = None
    """All values; kept for choices only."""
    picked: Tensor | None = None
    """The indices that were chosen."""
    dim: int | None = None
    """The dimension of the indices; None if they index the flattened values."""

    @property
    def is_whole(self) -> bool:
        """True if all values are whole numbers: they were rounded before, and no boundary is near."""
        wide = self.sample.double()
        return bool(((wide == wide.round()) | ~wide.isfinite()).all())

    def shift(self, own: "Decision | None", tolerance: elements.Tolerance, factor: float) -> Shift:
        """Return the allowed error of the values: the tolerance, or a multiple of the reference's error (`own`)."""
        if tolerance.exact or self.is_whole:
            return 0.0, 0.0
        times = 1.0
        least = 0.0
        if own is not None and own.sample.shape == self.sample.shape and self.sample.numel():
            wide = self.sample.double()
            factor = min(factor, FACTOR) if tolerance.coarse else factor
            times = max(1.0, factor * tails.quantile_error(own.sample, wide, tolerance, LARGER_SHARE))
            small = wide.abs() <= wide.abs().median()  # a product near zero is as far off as a large one
            apart = (own.sample.double() - wide)[small].abs().nan_to_num(0.0)
            least = factor * apart.quantile(1 - LARGER_SHARE).item() if apart.numel() else 0.0
        return max(least, times * tolerance.near_zero(self.rms)), times * tolerance.rtol


Recorded = tuple[Sequence[Tensor], list[Decision], list[Decision]]
"""Outputs, roundings and choices of a run."""


def _recorded(run: ReferenceRun) -> Recorded | None:
    roundings: list[Decision] = []
    choices: list[Decision] = []

    def record(func: Any, args: Any, given: dict[str, Any]) -> Any:
        place = _place(func, args, given)
        seen = None if place is None else _decision(args[place])
        out = func(*args, **given)
        if seen is not None:
            roundings.append(seen)
        elif _name(func) in CHOICES or _name(func) in POOLS:
            picked = out if isinstance(out, Tensor) else out[-1]
            if picked.dtype == torch.int64 and (isinstance(out, tuple) or _name(func).startswith("arg")):
                flat = POOLS.get(_name(func), 1)
                source, dim = args[0].flatten(-flat), _argument(func, args, given, "dim") if flat == 1 else -1
                choices.append(_decision(source, source=source, picked=picked.flatten(-flat), dim=dim))
        return out

    with OperatorMode(record):
        outputs = run()
    return None if outputs is None else (outputs, roundings, choices)


def _shifted(
    run: ReferenceRun, shifts: Sequence[Shift], times: float, *, outwards: bool
) -> tuple[Sequence[Tensor] | None, bool]:
    """Run with the values before each rounding shifted by a multiple of their allowed error, or of their signed one.

    Returns the outputs, and whether each rounding changes few of its results.
    """
    left, are_few = iter(shifts), True

    def shift(func: Any, args: Any, given: dict[str, Any]) -> Any:
        nonlocal are_few
        place = _place(func, args, given)
        if place is None:
            return func(*args, **given)
        atol, rtol = next(left, (0.0, 0.0))
        if atol == rtol == 0:
            return func(*args, **given)
        moved = args[place].abs().mul_(rtol).add_(atol).mul_(times)
        if sum(isinstance(each, Tensor) for each in args) == 1:
            moved.mul_(args[place] != 0)  # a zero lies on one side of a boundary that is a number
        moved = (moved.mul_(args[place].sign()) if outwards else moved).add_(args[place])
        before = func(*args[:place], args[place].clone(), *args[place + 1 :], **given).clone()
        if place == 0 and _name(func).endswith("_"):  # it works in place
            args[0].copy_(moved)
            moved = args[0]
        after = func(*args[:place], moved, *args[place + 1 :], **given)
        changed = before.float() != after.float()  # 8 bits have no comparison
        are_few &= int(changed.sum()) <= max(1, MAX_BOUNDARY_SHARE * changed.numel())
        return after

    with OperatorMode(shift):
        outputs = run()
    return outputs, are_few


def _name(func: Any) -> str:
    """Return the name of an operator of torch, as in `torch.ops.aten`; empty for others."""
    space, _, name = func._schema.name.partition("::")  # noqa: SLF001 - the only place of the name
    return str(name) if space == "aten" else ""


def _place(func: Any, args: Sequence[Any], given: dict[str, Any]) -> int | None:
    """Return the position of the argument that an operator rounds: floating-point numbers of 16 bits or more."""
    name, place = _name(func), None
    casts = name == "_to_copy" and _is_discrete(given.get("dtype"))
    if name in ROUNDINGS or casts or (name == "div" and given.get("rounding_mode")):
        place = 0
    elif name == "searchsorted" or (name == "copy_" and _is_discrete(args[0].dtype)):
        place = 1
    if place is None or not isinstance(args[place], Tensor):
        return None
    dtype = args[place].dtype
    return place if dtype.is_floating_point and dtype.itemsize > 1 else None


def _is_discrete(dtype: torch.dtype | None) -> bool:
    """Return whether a cast to a type rounds to codes; a cast to bool compares with zero, as `ne` does."""
    if dtype is None or dtype == torch.bool or dtype.is_complex:
        return False
    return codes.is_float8(dtype) or not dtype.is_floating_point


def _argument(func: Any, args: Sequence[Any], given: dict[str, Any], name: str) -> Any:
    """Return an argument by name, or its default; None without one."""
    for place, argument in enumerate(func._schema.arguments):  # noqa: SLF001 - the only list of them
        if argument.name == name:
            return args[place] if place < len(args) else given.get(name, argument.default_value)
    return None


def _decision(values: Tensor, **of_choice: Any) -> Decision:
    flat = values.detach().reshape(-1)
    sample = flat[:: -(-flat.numel() // tails.SAMPLE) or 1].clone()
    rms = elements.rms(values) if values.is_floating_point() else 1.0
    return Decision(sample=sample, rms=rms, **of_choice)


Near = tuple[Tensor, int, int]
"""An output, compared with the reference in fp64 and on both sides of a boundary: with the reference's values at
elements that are as right, then how many of these are indices of equally good values, and how many lie at a boundary.
"""


class Boundaries:
    """The decisions of a reference on one set of arguments, in its own precision and in fp64."""

    def __init__(
        self,
        own: ReferenceRun,
        double: ReferenceRun | None,
        tolerance_of: Callable[[Tensor], elements.Tolerance],
        factor: float,
    ):
        seen = _recorded(own)
        exact = _recorded(double) if double is not None else None
        self._run = own if exact is None or double is None else double
        self._has_fp64 = exact is not None
        self.outputs, roundings, choices = exact or seen or ((), [], [])
        _, native_roundings, native_choices = seen or ((), [], [])
        self.decides = bool(roundings) and len(roundings) == len(native_roundings)
        """True if the reference rounds or compares anywhere that can be seen."""

        def shifts(these: Sequence[Decision], those: Sequence[Decision]) -> list[Shift]:
            if len(these) != len(those):
                return [(0.0, 0.0)] * len(these)
            pairs = zip(these, those, strict=True)
            return [one.shift(other if exact else None, tolerance_of(other.sample), factor) for one, other in pairs]

        self._shifts = shifts(roundings, native_roundings)
        self._choices = list(zip(choices, shifts(choices, native_choices), strict=True))
        self._moved: dict[tuple[float, bool], Sequence[Tensor] | None] = {}
        self._are_few = True
        """True if few values lie near a boundary, so that a result behind several may differ in more elements."""

    def near(self, number: int, got: Tensor, want: Tensor, tolerance: elements.Tolerance) -> Near:
        """Judge an output that differs from the reference's."""
        if tolerance.exact:
            return self._near_codes(number, got, want)
        return self._near_values(number, got, want, tolerance)

    def _near_codes(self, number: int, got: Tensor, want: Tensor) -> Near:
        """Judge a discontinuous output."""
        places = codes.differing_places(got, want)
        base = self.outputs[number] if number < len(self.outputs) else want
        if base.dtype != want.dtype or base.shape != want.shape:
            base = want
        as_fp64 = codes.at(got, places) == codes.at(base, places)
        good = ~as_fp64 & self._good_picks(got, base, places)
        rest = places[~as_fp64 & ~good]
        found, known = self._explained(number, got, want, base, rest)
        own = codes.differing_places(want, base).numel() if self._has_fp64 else 0
        explained = int(found.sum().item())
        is_right = codes_are_right(want.numel(), rest.numel(), explained, reference=own, known=known)
        right = torch.cat([places[as_fp64 | good], *([rest] if is_right else [])])
        picks, at_boundary = int(good.sum().item()), rest.numel() if is_right else 0
        return codes.replaced(got, want, right), picks, at_boundary

    def _near_values(self, number: int, got: Tensor, want: Tensor, tolerance: elements.Tolerance) -> Near:
        """Judge an output of values, some of which may lie behind a rounding inside the reference."""
        places = elements.missing_places(got, want, tolerance)
        mine, right = got.reshape(-1)[places].double(), torch.zeros_like(places, dtype=torch.bool)
        for answer in self._answers(number, want.shape, SHIFTS):
            there = answer.reshape(-1)[places].double()
            right |= (mine - there).abs() <= tolerance.atol + tolerance.rtol * there.abs()
            if right.all() and (self._are_few or places.numel() <= MAX_BOUNDARY_SHARE * want.numel()):
                return codes.replaced(got, want, places), 0, places.numel()
        return got, 0, 0

    def _good_picks(self, got: Tensor, base: Tensor, places: Tensor) -> Tensor:
        """Return a mask of the places whose indices point at values as good as the chosen ones."""
        none = torch.zeros_like(places, dtype=torch.bool)
        if base.dtype not in {torch.int64, torch.int32}:
            return none
        for choice, (atol, rtol) in self._choices:
            if choice.source is None or choice.picked is None or base.numel() != choice.picked.numel():
                continue
            if not torch.equal(base.reshape(-1).long(), choice.picked.reshape(-1)):
                continue
            mine, best, dim = got.reshape(choice.picked.shape).long(), choice.picked, choice.dim
            given, wanted = (picked_values(choice.source, picks, dim) for picks in (mine, best))
            if given is None or wanted is None:
                continue
            if dim is not None and best.dim() == choice.source.dim() and not are_as_distinct(mine, best, dim):
                continue
            near = given == wanted
            if atol or rtol:
                near |= (given - wanted).abs() <= atol + rtol * wanted.abs()
            return near.reshape(-1)[places]
        return none

    def _explained(self, number: int, got: Tensor, want: Tensor, base: Tensor, places: Tensor) -> tuple[Tensor, bool]:
        """Return a mask of the places at most one code from an equally right answer, and whether that is known.

        Several codes packed into one word are right if the whole word is an answer.
        """
        mine, first, second = (codes.at(t, places) for t in (got, want, base))
        close = ((mine - first).abs() <= 1) | ((mine - second).abs() <= 1)
        moved = [*self._answers(number, base.shape, UP_AND_DOWN)]
        if len(moved) < len(UP_AND_DOWN) or any(t.dtype != base.dtype for t in moved):
            return (close if codes.is_quantised(want.dtype) else torch.zeros_like(close)), False
        answers = torch.stack([first, second, *(codes.at(t, places) for t in moved)])
        found = close & (mine >= answers.amin(0)) & (mine <= answers.amax(0))
        for answer in self._answers(number, base.shape, () if found.all() else SHIFTS):
            found |= mine == codes.at(answer, places)
        return found, True

    def _answers(self, number: int, shape: torch.Size, shifts: Sequence[tuple[float, bool]]) -> Iterator[Tensor]:
        """Yield an output with all values shifted in these ways; nothing if the roundings cannot be seen."""
        for times, outwards in shifts if self.decides else ():
            if (times, outwards) not in self._moved:
                moved, are_few = _shifted(self._run, self._shifts, times, outwards=outwards)
                self._moved[times, outwards], self._are_few = moved, self._are_few and are_few
            outputs = self._moved[times, outwards]
            if outputs is not None and outputs[number].shape == shape:
                yield outputs[number]


def picked_values(source: Tensor, picks: Tensor, dim: int | None) -> Tensor | None:
    """Return the values that indices along a dimension (None: of the flattened tensor) pick; None if they are none."""
    if dim is None:
        source, picks, dim = source.flatten(), picks.flatten(), 0
    dim %= max(1, source.dim())
    if picks.dim() == source.dim() - 1:
        picks = picks.unsqueeze(dim)
    lengths = zip(picks.shape, source.shape, strict=False)
    if picks.dim() != source.dim() or any(mine != whole for n, (mine, whole) in enumerate(lengths) if n != dim):
        return None
    if bool(((picks < 0) | (picks >= source.shape[dim])).any()):
        return None
    return source.gather(dim, picks.long())


def are_as_distinct(got: Tensor, want: Tensor, dim: int) -> bool:
    """Return whether no index comes twice in `got` along a dimension where none does in `want`."""
    mine, theirs = (picks.movedim(dim, -1).sort().values for picks in (got, want))
    distinct = [(ordered[..., 1:] != ordered[..., :-1]).all(-1) for ordered in (mine, theirs)]
    return bool((distinct[0] | ~distinct[1]).all())
