"""Match a solution's parameters with the reference's, and its outputs with the expected ones, by descriptions alone.

Weight plans are ways to give a solution the reference's weights, tried in order until one gives right values.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor

from kbench.core.model import Status
from kbench.judge.reference.expected import Expected
from kbench.process.channel import WireError, as_text

LONGEST_REASON = 500
"""Characters of a reason. Paths and type names come from the solution, and can have any length."""
MOST_LISTED = 4
"""Chosen. Largest number of parameters of one side that a reason names."""
ALIKE: tuple[Callable[[str], str], ...] = (
    lambda name: name.replace(".", "_"),
    lambda name: name.rpartition(".")[2],
)
"""Forms in which two names are compared, in this order: the whole name with `_` for `.`, then its last part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEntry:
    """A worker's description of one parameter or buffer of its model."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_parameter: bool
    same_as: str = ""
    """First name of the same tensor, if a module holds another module's parameter under a second name."""


def entries_of(described: list[Any]) -> list[StateEntry]:
    """Return a worker's description of its parameters and buffers. Raises WireError if it is malformed."""
    try:
        return [
            StateEntry(name=str(name), dtype=str(dtype), shape=tuple(shape), is_parameter=bool(own), same_as=str(first))
            for name, dtype, shape, own, first in described
        ]
    except (TypeError, ValueError) as error:
        raise WireError(f"no description of parameters: {error}") from error


def synchronise(ours: list[tuple[str, Tensor]], theirs: list[StateEntry]) -> tuple[str, list[str | None]]:
    """Match the reference's parameters and buffers with a solution's: by name, else by place, else by seed.

    By place: equal names first, then alike ones, then the rest by order or by shapes. Returns the way (`name`, `order`,
    `seed`, `none`) and the solution's names in the reference's order, with None for a buffer that the solution lacks.
    Its further buffers do not count, and neither do its parameters if the reference has none.
    """
    if not ours:
        return "none", []
    parameters = [(name, tensor) for name, tensor in ours if _is_parameter(tensor)]
    buffers = [(name, tensor) for name, tensor in ours if not _is_parameter(tensor)]
    same = _by_name(ours, theirs)
    by_name = [same.get(name) for name, _ in buffers]
    if all(name in same for name, _ in parameters) and (parameters or None not in by_name):
        own = _others(theirs, {name for name, _ in parameters})
        return "name", [*(name for name, _ in parameters), *_buffers(buffers, own, by_name)]
    registered = [entry for entry in theirs if entry.is_parameter]
    own = [entry for entry in theirs if not entry.is_parameter]
    if not registered and own:
        # Code written for inference registers its weights as buffers.
        registered, own = own[: len(parameters)], own[len(parameters) :]
    by_place = _by_place(parameters, registered) if parameters else []
    if by_place is None:
        return "seed", []
    return "order", [*by_place, *_buffers(buffers, own, by_name)]


def _by_place(ours: list[tuple[str, Tensor]], theirs: list[StateEntry]) -> list[str] | None:
    """Match parameters of equal names, then of alike names, then the rest by order or by shapes."""
    named = _by_name(ours, theirs)
    for repeated in (False, True):
        for places in (_alike(ours, theirs, named), named):
            if found := _left(ours, theirs, places, repeated=repeated):
                return [found[name] for name, _ in ours]
    return None


def _by_name(ours: list[tuple[str, Tensor]], theirs: list[StateEntry]) -> dict[str, str]:
    shapes = {entry.name: (entry.dtype, entry.shape) for entry in theirs}
    return {name: name for name, tensor in ours if shapes.get(name) == _shape_of(tensor)}


def _alike(ours: list[tuple[str, Tensor]], theirs: list[StateEntry], places: dict[str, str]) -> dict[str, str]:
    """Add pairs of alike names that occur once: `fc.weight` is `fc_weight`, else `weight`."""
    for naming in ALIKE:
        left = [(naming(name), *_shape_of(tensor)) for name, tensor in ours if name not in places]
        names = [name for name, _ in ours if name not in places]
        others = _others(theirs, set(places.values()))
        keys = [(naming(entry.name), entry.dtype, entry.shape) for entry in others]
        places = places | {
            name: others[keys.index(key)].name
            for name, key in zip(names, left, strict=True)
            if left.count(key) == keys.count(key) == 1
        }
    return places


def _left(
    ours: list[tuple[str, Tensor]], theirs: list[StateEntry], places: dict[str, str], *, repeated: bool
) -> dict[str, str] | None:
    """Add the remaining parameters, by their order or their shapes; None if that is not possible.

    Shapes that occur more than once are taken in order, if they may be `repeated`; values have to confirm that. A
    published kernel (3/16) has all norms of a block before its convolutions.
    """
    left = [(name, tensor) for name, tensor in ours if name not in places]
    others = _others(theirs, set(places.values()))
    recurs = len({_shape_of(tensor) for _, tensor in left}) < len(left)
    if _in_order(left, others) is None and (repeated or not recurs):
        left.sort(key=lambda own: repr(_shape_of(own[1])))
        others.sort(key=lambda entry: repr((entry.dtype, entry.shape)))
    found = _in_order(left, others)
    return None if found is None else places | dict(zip([name for name, _ in left], found, strict=True))


def unmatched(ours: list[tuple[str, Tensor]], theirs: list[StateEntry], names: list[str | None]) -> str:
    """Return the reason why parameters do not match; `names` are those that `synchronise` found, if any."""
    if names:
        return "parameters at the same places have other values after construction"
    parameters = [(name, tensor) for name, tensor in ours if _is_parameter(tensor)]
    places = _alike(parameters, theirs, _by_name(parameters, theirs))
    others = _others(theirs, set(places.values()))
    left = [f"`{name}` {tuple(tensor.shape)}" for name, tensor in parameters if name not in places]
    own = [f"{'' if entry.is_parameter else 'buffer '}`{entry.name}` {entry.shape}" for entry in others]
    if left and own:
        text = f"the reference has {listed(left)}, and the solution {listed(own)} instead"
    elif left:
        text = f"the solution lacks {listed(left)}"
    else:
        text = f"the solution also has {listed(own)}"
    return text[:LONGEST_REASON]


def transposed(ours: Sequence[tuple[str, Tensor]], theirs: Sequence[Tensor], names: Sequence[str | None]) -> str:
    """Return a sentence that names the square matrices which a constructor has transposed; empty for none."""
    found = [
        f"its `{name}` is the reference's `{our_name}` transposed"
        for (our_name, our), their, name in zip(ours, theirs, names, strict=True)
        if name is not None and our.ndim >= 2 and not torch.equal(our, their) and torch.equal(our.mT, their)
    ]
    return listed(found)[:LONGEST_REASON]


def listed(texts: list[str]) -> str:
    """Return a few texts as `a, b and 3 more`."""
    more = len(texts) - MOST_LISTED
    shown = [*texts[:MOST_LISTED], *([f"{more} more"] if more > 0 else [])]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _others(theirs: list[StateEntry], taken: set[str]) -> list[StateEntry]:
    """Return each tensor once, without the tensors taken under any of their names."""
    gone = {entry.same_as or entry.name for entry in theirs if entry.name in taken}
    return [entry for entry in theirs if not entry.same_as and entry.name not in gone]


def _buffers(ours: list[tuple[str, Tensor]], theirs: list[StateEntry], by_name: list[str | None]) -> list[str | None]:
    """Match buffers by name if all are found, else in order; counters change no result, so they may be missing."""
    if None not in by_name:
        return by_name
    if (in_order := _in_order(ours, theirs)) is not None:
        return [*in_order]
    values = [(name, tensor) for name, tensor in ours if tensor.is_floating_point()]
    found = _in_order(values, [entry for entry in theirs if "float" in entry.dtype])
    if found is None:
        return by_name
    places = dict(zip((name for name, _ in values), found, strict=True))
    return [places.get(name, known) for (name, _), known in zip(ours, by_name, strict=True)]


def _in_order(ours: list[tuple[str, Tensor]], theirs: list[StateEntry]) -> list[str] | None:
    if [_shape_of(tensor) for _, tensor in ours] != [(entry.dtype, entry.shape) for entry in theirs]:
        return None
    return [entry.name for entry in theirs]


def _shape_of(tensor: Tensor) -> tuple[str, tuple[int, ...]]:
    return str(tensor.dtype), tuple(tensor.shape)


def _is_parameter(tensor: Tensor) -> bool:
    return isinstance(tensor, torch.nn.Parameter)


class Copied(StrEnum):
    """Parameters and buffers that a solution gets from the reference."""

    ALL = "all"
    """All that match, by name or by place; nothing if none do."""
    ALL_BUT_BUFFERS = "all but buffers"
    """All but buffers that the constructors made different: a table in another layout."""
    NOTHING = "nothing"
    """Nothing: both constructors draw from one seed, and equal places may hold other weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPlan:
    """One way, and where both sides are constructed."""

    copied: Copied = Copied.ALL
    on_cpu: bool = False


def check_description(
    described: Any, expected: Expected, device: str, may_alias: frozenset[str] = frozenset()
) -> tuple[Status, str] | None:
    """Compare a worker's description of its outputs with the expectation; None if they can be copied.

    Outputs at the paths `may_alias` may share memory with an input. Raises WireError if `described` is malformed.
    """
    if not isinstance(described, list) or not all(isinstance(d, list) and len(d) == 6 for d in described):
        raise WireError("a description of outputs has six fields per output")
    if len(described) != len(expected.leaves):
        return Status.WRONG_OUTPUT, _counted(described, expected)[:LONGEST_REASON]
    for description, (path, want) in zip(described, expected.leaves, strict=True):
        if (found := _check_leaf(description, path, want, device)) is not None:
            status, text = found
            return status, text[:LONGEST_REASON]
        if description[5] and path not in may_alias:
            what = "it is the input itself, changed in place, or a view of it"
            return Status.OUTPUT_ALIASED, f"{path} shares memory with an input: {what}"
    return None


def _counted(described: Sequence[list[Any]], expected: Expected) -> str:
    """Describe the number of outputs, and which ones are missing or unexpected."""
    wanted, given = [path for path, _ in expected.leaves], [str(leaf[0]) for leaf in described]
    if expected.changed and all(leaf is None for _, leaf in expected.leaves):
        written = ", ".join(name.removesuffix(" after the call") for name, _ in expected.changed)
        return f"it returns {len(given)} outputs; the reference returns None, and writes into {written}"
    if given == ["output"]:
        alone = "None" if described[0][1] == "NoneType" else "one value"
        return f"it returns {alone}; the reference returns a container of {len(wanted)}"
    if wanted == ["output"]:
        return f"it returns a container of {len(given)}; the reference returns one value"
    counts = f"{len(given)} output{'' if len(given) == 1 else 's'}, expected {len(wanted)}"
    named = (("missing", set(wanted) - set(given), wanted), ("unexpected", set(given) - set(wanted), given))
    unlike = [f"{word} {listed([f'`{p}`' for p in paths if p in those])}" for word, those, paths in named if those]
    return f"{counts}: {', '.join(unlike)}" if unlike else counts


def _check_leaf(description: list[Any], path: str, want: Any, device: str) -> tuple[Status, str] | None:
    where, kind, dtype, shape, place, _aliased = description
    if where != path:
        return Status.WRONG_OUTPUT, f"an output at `{where}`, expected `{path}`"
    if not hasattr(want, "untyped_storage"):
        fraction = isinstance(want, float | complex) and _is_number(dtype, want)
        if kind == type(want).__name__ and (fraction or dtype == as_text(want)):
            return None  # a fraction is compared like a tensor's values
        if kind != type(want).__name__:
            shown = f"a tensor of {dtype}" if kind == "tensor" else f"{dtype} ({kind})"
            wanted = "None" if want is None else f"{want!r} ({type(want).__name__})"
            return Status.WRONG_OUTPUT, f"{path} is {shown}, expected {wanted}"
        return Status.WRONG_VALUE, f"{path} is {dtype}, expected {want!r}"
    faults = (
        (kind != "tensor", f"is a {kind}, expected a plain torch.Tensor"),
        (shape != list(want.shape), f"has shape {_shown(shape)}, expected {tuple(want.shape)}"),
        (dtype != str(want.dtype), f"has dtype {dtype}, expected {want.dtype}"),
        (place != device, f"is on {place}, expected {device}"),
    )
    return next(((Status.WRONG_OUTPUT, f"{path} {text}") for wrong, text in faults if wrong), None)


def scalar_outputs(described: Any, expected: Expected) -> tuple[Any, ...]:
    """Return the numbers with a fraction among outputs that `check_description` accepts, as tensors."""
    texts = {path: text for path, _, text, *_ in described}
    read = {path: complex if want.is_complex() else float for path, want in expected.numbers.items()}
    return tuple(torch.tensor(read[p](texts[p]), dtype=want.dtype) for p, want in expected.numbers.items())


def _is_number(text: Any, like: complex) -> bool:
    try:
        (complex if isinstance(like, complex) else float)(text)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _shown(shape: Any) -> str:
    return str(tuple(shape)) if isinstance(shape, list) else str(shape)
