"""The reference's model in fp64, run on widened arguments: the values by which rounding errors are measured."""

import contextlib
import copy
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from kbench.catalog.containers import tensors
from kbench.core.values import DRAWS
from kbench.judge.reference.drawing import fresh, over_tensors
from kbench.judge.reference.expected import Expected, unlike
from kbench.numerics import elements, tails
from kbench.numerics.operators import OperatorMode
from kbench.process.channel import flatten
from kbench.process.child_error import is_of_the_device

COARSE = (torch.bfloat16, torch.float16)
"""Types of 16 bits, the coarser one first."""
ROUNDED = 5.0
"""Median error of fp32 results, in tolerances, from which they are rounded to 16 bits (docs/verification.md)."""

MAX_MISSING_ENTRIES = 64
"""Most entries with misses that are computed in fp64; more misses are the candidate's, or rule 2 decides."""

Pieces = list[tuple[Any, list[Tensor]]]
"""Outputs in fp64, each list with the index of its part of the batch: `...` for the whole."""


class Fp64Model:
    """A copy of a model with parameters and buffers in twice their precision."""

    def __init__(self, model: nn.Module):
        self._original = model
        self._model: nn.Module | None = None

    def run(self, arguments: list[Any], changed: Sequence[int], like: Sequence[Tensor]) -> list[Tensor] | None:
        """Return tensors of the result, then inputs that it changes, then its numbers.

        None if the model works in its own precision only: it raises, or gives other shapes than `like`.
        """
        try:
            if self._model is None:
                model = copy.deepcopy(self._original)
                self._model = model._apply(widened)  # noqa: SLF001 - `double` leaves complex parameters as they are
            with torch.no_grad(), widening():
                given = [over_tensors(a, widened) for a in arguments]
                leaves = flatten(self._model(*fresh(given)))
        except Exception:  # noqa: BLE001 - its code may raise anything in a precision it was not written for
            return None
        after = tensors(given)
        found = [*(leaf for _, leaf in leaves if isinstance(leaf, Tensor)), *(after[number] for number in changed)]
        found += numbers(leaves, torch.float64).values()
        return found if [t.shape for t in found] == [t.shape for t in like] else None


def numbers(leaves: Sequence[tuple[str, Any]], dtype: torch.dtype) -> dict[str, Tensor]:
    """Return the Python numbers with a fraction among a result's leaves as tensors, by path."""
    wide = torch.complex128 if dtype == torch.float64 else torch.complex64
    found = ((path, leaf) for path, leaf in leaves if isinstance(leaf, float | complex))
    return {path: torch.tensor(leaf, dtype=wide if isinstance(leaf, complex) else dtype) for path, leaf in found}


def widened(tensor: Tensor) -> Tensor:
    """Return a tensor in twice its precision; integers as they are."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


WIDE = {
    **dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float64),
    **dict.fromkeys((torch.complex64, torch.complex32), torch.complex128),
}


def _wide(func: Any, args: Any, given: dict[str, Any]) -> Any:
    if func is torch.ops.aten.view.dtype and (args[0].is_floating_point() or args[1].is_floating_point):
        raise TypeError("the bits of a number are those of its own precision")
    return func(*args, **{n: WIDE.get(v, v) if n == "dtype" else v for n, v in given.items()})


@contextlib.contextmanager
def widening() -> Iterator[None]:
    """Compute in fp64 where the reference asks for 16 or 32 bits, so that its casts lose nothing."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with OperatorMode(_wide):
            yield
    finally:
        torch.set_default_dtype(default)


def batch_size(expected: Expected) -> int | None:
    """Return the first dimension that all outputs have in common, or None."""
    sizes = {t.shape[0] if t.dim() else 0 for t in expected.tensors}
    return sizes.pop() if len(sizes) == 1 and 0 not in sizes else None


def worst_of_entries(
    outputs: Sequence[Tensor],
    expected: Expected,
    tolerances: Sequence[elements.Tolerance],
    scales: Sequence[float],
) -> Tensor | None:
    """Return the largest error of each entry of the batch, in tolerances, then at each output's own scale.

    None without a batch. An output's `scale` is its root mean square: where that is large, its absolute tolerance is.
    """
    wanted = list(expected.judged.values())
    if batch_size(expected) is None or len(wanted) > len(expected.tensors):
        return None
    scaled = [replace(t, atol=t.atol * max(1.0, scale)) for t, scale in zip(tolerances, scales, strict=True)]
    return torch.stack(
        [
            torch.stack([elements.worst_of_entries(*each) for each in zip(outputs, wanted, of, strict=True)]).amax(0)
            for of in (tolerances, scaled)
        ]
    )


def chosen_entries(batch: int, elements_each: int, worst: Tensor | None, most_elements: int) -> list[int]:
    """Return the entries of a batch to compute: those with the largest misses, and as many others at random.

    An element that misses the contract is judged by fp64; the others show the reference's own errors. Misses are
    compared at the output's scale, because near zero each result of a long sum misses by much.
    """
    random = secrets.SystemRandom()
    missing = 0 if worst is None else int((worst[0] > 1).sum().item())
    if worst is None or not missing:
        return random.sample(range(batch), min(DRAWS, batch))
    most = max(DRAWS, min(MAX_MISSING_ENTRIES, most_elements // elements_each))
    at_scale = torch.where(worst[0] > 1, worst[1], 0.0)
    first: list[int] = at_scale.sort(descending=True).indices[: min(most, missing)].tolist()
    others = [entry for entry in random.sample(range(batch), min(2 * len(first), batch)) if entry not in first]
    return [*first, *others[: len(first)]]


def of_entries(
    expected: Expected,
    worst: Tensor | None,
    most_elements: int,
    call: Callable[[list[Any]], Any],
    run_double: Callable[[list[Any], list[Tensor]], list[Tensor] | None],
) -> Pieces | None:
    """Return fp64 outputs of the `chosen_entries` of the batch; None if there is none, or entries depend on each other.

    Inputs that have as many entries as the outputs are cut, all of them or only the first; the others are whole.
    """
    batch = batch_size(expected)
    if batch is None or expected.changed or expected.numbers:
        return None
    with_batch = [*(a for a in expected.arguments if hasattr(a, "shape")), *expected.tensors]
    each = max(1, sum(t.numel() // len(t) for t in with_batch if t.dim() and t.shape[0] == batch))
    entries, at_once = chosen_entries(batch, each, worst, most_elements), max(1, most_elements // each)
    cut = [n for n, a in enumerate(expected.arguments) if hasattr(a, "shape") and a.dim() and a.shape[0] == batch]
    groups = [entries[start : start + at_once] for start in range(0, len(entries), at_once)]
    for inputs in dict.fromkeys([tuple(cut), tuple(cut[:1])]) if cut else ():
        found: Pieces = []
        for group in groups:
            part = [a[group].clone() if n in inputs else a for n, a in enumerate(expected.arguments)]
            outputs = _of_part(part, [whole[group] for whole in expected.tensors], call, run_double)
            if outputs is None:
                break
            found.append((group, outputs))
        else:
            return found
    return None


def _of_part(
    part: list[Any],
    wanted: list[Tensor],
    call: Callable[[list[Any]], Any],
    run_double: Callable[[list[Any], list[Tensor]], list[Tensor] | None],
) -> list[Tensor] | None:
    try:
        alone = [t for _, t in flatten(call(part)) if isinstance(t, Tensor)]
    except Exception as error:  # a batch norm in training mode takes no single sample
        if is_of_the_device(error):
            raise
        return None
    if len(alone) != len(wanted) or any(unlike(one, other) for one, other in zip(alone, wanted, strict=True)):
        return None  # equal sizes by chance, as of `a.T @ b`
    return run_double(part, alone)


def has_all_misses(pieces: Pieces, worst: Tensor) -> bool:
    """Return whether each entry with a miss was computed."""
    computed = torch.zeros_like(worst[0], dtype=torch.bool)
    for index, _ in pieces:
        computed[index] = True
    return bool((computed | ~(worst[0] > 1)).all())


def inner_type(
    types: Collection[torch.dtype], results: Callable[[], Expected], oracle: Callable[[Expected], Pieces | None]
) -> torch.dtype | None:
    """Return the 16-bit type of intermediate results, among `types`, that fp32 results are rounded to; or None."""
    seen = next((each for each in COARSE if each in types), None)
    if seen is None:
        return None
    expected = results()
    wide = [t.dtype == torch.float32 and t.numel() > 0 for t in expected.judged.values()]
    for index, exact in (oracle(expected) if any(wide) else None) or ():
        for want, double, is_wide in zip(expected.judged.values(), exact, wide, strict=True):
            error = (
                tails.quantile_error(want[index], double, elements.tolerance_for(want.dtype), 0.5) if is_wide else 0.0
            )
            if error > ROUNDED:
                return seen
    return None


def tolerance_within(inner: torch.dtype | None, output: Tensor, own: elements.Tolerance) -> elements.Tolerance:
    """Return the tolerance of the type that an output was rounded to, which may be coarser than its `own`."""
    return elements.tolerance_for(inner) if inner is not None and output.dtype == torch.float32 else own
