"""Integer inputs that index a parameter, and its number of entries: `get_inputs` may draw only a few of them."""

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from kbench.catalog.containers import leaves, over_leaves, tensors
from kbench.judge.reference import structure
from kbench.judge.reference.drawing import Inputs, is_integer, over_tensors
from kbench.numerics.operators import OperatorMode

MOST_ELEMENTS = 1 << 24
"""Elements of inputs and state beyond which no call on the host and no second construction is made, to limit time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Indices:
    """Integer inputs, by their number among the leaves of the arguments."""

    lengths: Mapping[int, int] = field(default_factory=dict)
    """Number of entries of a parameter, by the input that indexes it and draws only a part of the entries."""
    as_drawn: tuple[int, ...] = ()
    """Inputs that index no parameter directly, so that no other value is known to be valid."""

    def over_all_entries(self, inputs: Inputs) -> list[Any]:
        """Make arguments whose indices are drawn from all entries, the last one among them."""
        numbers = itertools.count()

        def drawn(leaf: Any) -> Any:
            number = next(numbers)
            length, structures = self.lengths.get(number, 0), inputs.structures.get(number, ())
            if not length:
                return leaf
            if structure.DISTINCT in structures:
                indices = torch.randperm(length, device=leaf.device)[: leaf.numel()]
            else:
                indices = torch.randint(length, (leaf.numel(),), device=leaf.device)
                indices[torch.randint(leaf.numel(), ())] = length - 1
            return structure.keep(structures, indices.view(leaf.shape).to(leaf.dtype), leaf)

        return [over_leaves(value, drawn) for value in inputs.draw()]


def look(call: Callable[[list[Any]], object], arguments: list[Any], parameters: Sequence[Tensor]) -> Indices:
    """Run a call, and record which inputs index a parameter. An input that is changed before is not recognised."""
    drawn = {n: leaf for n, leaf in enumerate(leaves([*arguments])) if is_integer(leaf) and leaf.numel()}
    if not drawn:
        return Indices()
    memories = {t.untyped_storage().data_ptr() for t in parameters}
    sizes: dict[int, set[int]] = {number: set() for number in drawn}
    into_parameters: set[int] = set()

    def record(func: Any, args: Any, given: dict[str, Any]) -> Any:
        for table, size, index in _lookups(func._schema.name, args):  # noqa: SLF001 - the name that torch documents
            for number, leaf in drawn.items():
                if leaf.numel() == index.numel() and torch.equal(*(t.reshape(-1).long() for t in (leaf, index))):
                    sizes[number].add(size)
                    if table.untyped_storage().data_ptr() in memories:
                        into_parameters.add(number)
        return func(*args, **given)

    with OperatorMode(record):
        call(arguments)
    lengths = {n: min(sizes[n]) for n in into_parameters if drawn[n].min() >= 0}
    partly = {n: length for n, length in lengths.items() if drawn[n].max() + 1 < length}
    return Indices(lengths=partly, as_drawn=tuple(n for n in drawn if n not in lengths))


def _lookups(name: str, args: Sequence[Any]) -> list[tuple[Tensor, int, Tensor]]:
    """Return the lookups of an operator: the table, the size of the dimension, the indices."""
    match name, args:
        case ("aten::embedding" | "aten::_embedding_bag" | "aten::_embedding_bag_forward_only", [table, index, *_]):
            return [(table, table.shape[0], index)]
        case ("aten::index_select" | "aten::gather", [table, dim, index, *_]):
            return [(table, table.shape[dim], index)]
        case "aten::take", [table, index, *_]:
            return [(table, table.numel(), index)]
        case "aten::index", [table, indices, *_]:
            integers = [(dim, t) for dim, t in enumerate(indices) if t is not None and t.dtype != torch.bool]
            return [(table, table.shape[dim], t) for dim, t in integers]
    return []


def takes(model: nn.Module, arguments: Sequence[Any]) -> bool:
    """Return whether a model accepts arguments, tried on the host: on a GPU an index out of range ends the process."""
    if sum(t.numel() for t in (*model.parameters(), *model.buffers(), *tensors(arguments))) > MOST_ELEMENTS:
        return False
    try:
        with torch.no_grad():
            copy.deepcopy(model).cpu()(*[over_tensors(a, lambda t: t.cpu()) for a in arguments])
    except (RuntimeError, LookupError, ValueError, TypeError, AttributeError, AssertionError):
        return False
    return True
