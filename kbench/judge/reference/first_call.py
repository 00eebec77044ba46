"""The first call of a reference: its arithmetic, and the integer inputs that index a parameter.

Floating-point operations are those of torch's own formulas. For some values of an index a GPU ends the process.
"""

import copy
import itertools
import logging
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from kbench.catalog.containers import leaves, over_leaves, tensors
from kbench.devices.backend import backend
from kbench.judge.reference import structure
from kbench.judge.reference.drawing import Inputs, is_integer, over_tensors
from kbench.numerics.operators import OperatorMode

Result = TypeVar("Result")
PRECISIONS = {
    **dict.fromkeys((torch.float64, torch.complex128), "fp64"),
    **dict.fromkeys((torch.float32, torch.complex64), "fp32"),
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
}
"""Names of precisions in `kbench.core.roofline`; other types have the name of their dtype."""
INDEXING = frozenset(
    """
    embedding _embedding_bag _embedding_bag_forward_only index_select gather take index index_put index_add index_copy
    index_fill scatter scatter_add scatter_reduce nll_loss_forward nll_loss2d_forward repeat_interleave
    """.split()  # noqa: SIM905 - as lines they can be read
)
"""Operators of torch with indices: on a GPU one that is out of range ends the process."""
PROBABILITIES_ONLY = frozenset({"binary_cross_entropy", "multinomial", "bernoulli"})
"""Operators that end it for a value beyond 0 to 1."""
MOST_ELEMENTS = 1 << 24
"""Elements of inputs and state beyond which no call on the host and no second construction is made, to limit time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Indices:
    """Integer inputs, by their number among the leaves of the arguments."""

    lengths: Mapping[int, int] = field(default_factory=dict)
    """Number of entries of a parameter, by the input that indexes it and draws only a part of the entries."""
    as_drawn: tuple[int, ...] = ()
    """Inputs that index no parameter directly, so that no other value is known to be valid."""
    depend_on_values: bool = False
    """True if other values of the inputs may make an index, or a probability, invalid."""

    def refusal(self, model: nn.Module, arguments: Sequence[Any], device: str) -> Exception | None:
        """Return why a model refuses arguments of other values that may end the GPU's process; None if not known."""
        risky = self.depend_on_values and backend(device).has_own_memory
        return raised_on_host(model, arguments) if risky and fits_host(model, arguments) else None

    def over_all_entries(self, inputs: Inputs, places: Callable[[Tensor, int], Tensor] | None = None) -> list[Any]:
        """Make arguments whose indices are drawn from all entries, the last one among them; or those at a few `places`.

        Distinct indices, and fewer than 256, are all drawn.
        """
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
                if places is not None and leaf.numel() >= 256:
                    there = places(leaf, 4).to(leaf.device)
                    indices = leaf.flatten().long().index_fill(0, there, length - 1)
            return structure.keep(structures, indices.view(leaf.shape).to(leaf.dtype), leaf)

        return [over_leaves(value, drawn) for value in inputs.draw()]


def _formulas() -> dict[Any, Callable[..., int]]:
    """Import torch's formulas by operator without triton, which takes 0.14 s and whose kernels no reference has."""
    logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)  # it warns that triton is missing
    absent = sys.modules.setdefault("triton", None) is None  # type: ignore[arg-type]
    try:
        from torch.utils.flop_counter import flop_registry
    finally:
        if absent:
            del sys.modules["triton"]
    return flop_registry


FORMULAS = _formulas()


def count(
    call: Callable[[], Result], see: Callable[[Any, Any], None] = lambda *_: None
) -> tuple[Result, dict[str, int], set[torch.dtype]]:
    """Run a call; return its result, its FLOPs by the precision of the factors, and the types that it computed.

    `see` gets each operator, and its arguments, before it is computed.

    `FlopCounterMode` of torch is not used: it imports torch.compile for its first operator, which takes seconds.
    """
    flops: Counter[str] = Counter()
    types: set[torch.dtype] = set()

    def compute(func: Any, args: Any, given: dict[str, Any]) -> Any:
        formula = FORMULAS.get(func._overloadpacket)  # noqa: SLF001 - the key that the registry uses
        if formula is None:
            with mode:  # under inference_mode, operators that consist of others arrive whole
                out = func.decompose(*args, **given)
            if out is not NotImplemented:
                return out
        see(func, args)
        out = func(*args, **given)
        if formula is not None:
            dtype = next((a.dtype for a in (*args, *given.values()) if isinstance(a, Tensor)), torch.float32)
            flops[PRECISIONS.get(dtype, str(dtype).removeprefix("torch."))] += formula(*args, **given, out_val=out)
        types.update(t.dtype for t in (out if isinstance(out, tuple | list) else [out]) if isinstance(t, Tensor))
        return out

    with OperatorMode(compute) as mode:
        return call(), dict(flops), types


def watch(
    arguments: list[Any], parameters: Sequence[Tensor]
) -> tuple[Callable[[Any, Any], None], Callable[[], Indices]]:
    """Return a function that sees the operators of a call, and one that returns the call's indices after it.

    An input that the call changes before it is an index is not recognised.
    """
    drawn = {n: leaf for n, leaf in enumerate(leaves([*arguments])) if is_integer(leaf) and leaf.numel()}
    ranges = {number: (int(leaf.min()), int(leaf.max())) for number, leaf in drawn.items()}
    memories = {t.untyped_storage().data_ptr() for t in parameters}
    sizes: dict[int, set[int]] = {number: set() for number in drawn}
    into_parameters: set[int] = set()
    depend_on_values = False

    def inputs_that_are(index: Tensor) -> list[int]:
        alike = (n for n, leaf in drawn.items() if leaf.numel() == index.numel())
        return [n for n in alike if torch.equal(drawn[n].reshape(-1).long(), index.reshape(-1).long())]

    def see(func: Any, args: Any) -> None:
        nonlocal depend_on_values
        name = func._schema.name.removeprefix("aten::").rstrip("_")  # noqa: SLF001 - the name that torch documents
        for table, size, index in _lookups(name, args):
            for number in inputs_that_are(index):
                sizes[number].add(size)
                if table.untyped_storage().data_ptr() in memories:
                    into_parameters.add(number)
        if name in INDEXING:
            indices = [t for t in pytree.tree_leaves(args) if is_integer(t)]
            depend_on_values |= not all(map(inputs_that_are, indices))
        depend_on_values |= name in PROBABILITIES_ONLY

    def found() -> Indices:
        lengths = {n: min(sizes[n]) for n in into_parameters if ranges[n][0] >= 0}
        partly = {n: length for n, length in lengths.items() if ranges[n][1] + 1 < length}
        as_drawn = tuple(n for n in drawn if n not in lengths)
        return Indices(lengths=partly, as_drawn=as_drawn, depend_on_values=depend_on_values)

    return see, found


def _lookups(name: str, args: Sequence[Any]) -> list[tuple[Tensor, int, Tensor]]:
    """Return the lookups of an operator: the table, the size of the dimension, the indices."""
    match name, args:
        case ("embedding" | "_embedding_bag" | "_embedding_bag_forward_only", [table, index, *_]):
            return [(table, table.shape[0], index)]
        case ("index_select" | "gather", [table, dim, index, *_]):
            return [(table, table.shape[dim], index)]
        case "take", [table, index, *_]:
            return [(table, table.numel(), index)]
        case "index", [table, indices, *_]:
            integers = [(dim, t) for dim, t in enumerate(indices) if t is not None and t.dtype != torch.bool]
            return [(table, table.shape[dim], t) for dim, t in integers]
    return []


def fits_host(model: nn.Module, arguments: Sequence[Any]) -> bool:
    """Return whether a call on the host takes little time."""
    return sum(t.numel() for t in (*model.parameters(), *model.buffers(), *tensors(arguments))) <= MOST_ELEMENTS


def raised_on_host(model: nn.Module, arguments: Sequence[Any]) -> Exception | None:
    """Return the exception that a model raises on the host for arguments: on a GPU it may end the process."""
    try:
        with torch.no_grad():
            copy.deepcopy(model).cpu()(*[over_tensors(a, lambda t: t.cpu()) for a in arguments])
    except (RuntimeError, LookupError, ValueError, TypeError, AttributeError, AssertionError) as error:
        return error
    return None
