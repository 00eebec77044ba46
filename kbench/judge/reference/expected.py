"""Results of a reference: the answer that a solution's is compared with, and the test that it repeats."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from kbench.catalog.containers import tensors
from kbench.core.values import DRAWS, MAX_BOUNDARY_SHARE
from kbench.judge.reference.drawing import Arguments
from kbench.numerics import elements, tails

UNLIKE_TIMES = 10
"""Largest root mean square of the difference between two calls on equal inputs, in relative tolerances."""
SMALL_CHANGE = 2e-3
"""Share of an input (root mean square) below which its change is compared separately."""
FEW = 64
"""Number of elements of an output below which one draw may be right by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Results of the reference for one set of arguments."""

    arguments: list[Any]
    """The judge's private copy, which no worker has ever seen; cleared `Arguments` are empty."""
    leaves: list[tuple[str, Any]]
    changed: tuple[tuple[str, Tensor], ...] = ()
    """Inputs that the reference changes and does not return, as they are after the call."""
    numbers: Mapping[str, Tensor] = field(default_factory=dict)
    """Python numbers with a fraction that it returned, as tensors on the host, by path."""

    @property
    def outputs(self) -> list[tuple[str, Tensor]]:
        """The tensor leaves, in order."""
        return [(path, leaf) for path, leaf in self.leaves if isinstance(leaf, Tensor)]

    @property
    def tensors(self) -> list[Tensor]:
        """The tensor leaves without their paths."""
        return [leaf for _, leaf in self.outputs]

    @property
    def judged(self) -> dict[str, Tensor]:
        """All values that are compared, by name: returned tensors, changed inputs, numbers."""
        return {**dict(self.outputs), **dict(self.changed), **self.numbers}

    @property
    def size(self) -> int:
        """Number of elements of all inputs and outputs."""
        total = sum(t.numel() for t in self.judged.values())
        return total + sum(a.numel() for a in self.recalled() if hasattr(a, "numel"))

    @property
    def has_few(self) -> bool:
        """True if an output has so few elements that one draw of inputs may be right by chance."""
        return any(t.numel() < FEW for t in self.judged.values())

    @property
    def is_finite(self) -> bool:
        """True if no element of a floating-point output is NaN or infinite."""
        return all(elements.all_finite(t) for t in self.judged.values() if t.is_floating_point())

    def recalled(self) -> list[Tensor]:
        """Return the arguments, drawn again if they were cleared."""
        if isinstance(self.arguments, Arguments):
            self.arguments.recall()
        return self.arguments


def sums_of(state: Sequence[tuple[str, Tensor]]) -> dict[str, str]:
    """Return the sum of each tensor by name, as texts, which compare equal for NaN; the device is read once."""
    bytewise = [(name, t.view(torch.uint8) if t.element_size() == 1 else t) for name, t in state]
    real = [(name, torch.view_as_real(t) if t.is_complex() else t) for name, t in bytewise]
    sums = torch.stack([t.sum(dtype=torch.float64) for _, t in real]).tolist() if real else []
    return {name: repr(total) for (name, _), total in zip(real, sums, strict=True)}


def unlike(one: Tensor, other: Tensor) -> bool:
    """Return whether two results of the same call differ by more than sums in another order, or ties, would."""
    if not hasattr(one, "untyped_storage"):
        return False
    if one.shape != other.shape or one.dtype != other.dtype:
        return True
    if elements.same_bits(one, other):
        return False
    tolerance = elements.tolerance_for(one.dtype)
    if tolerance.exact:
        return bool((one != other).sum() > MAX_BOUNDARY_SHARE * one.numel())
    return elements.rms_apart(one, other) > UNLIKE_TIMES * tolerance.rtol


def repeated_outputs(
    draw: Callable[[], Expected], tolerance_of: Callable[[Tensor], elements.Tolerance], within: float = 1.0
) -> tuple[str, ...]:
    """Return the outputs whose draws all agree to `within` tolerances, as a mean over a million terms does."""

    def small() -> dict[str, Tensor]:
        return {p: t for p, t in draw().outputs if 0 < t.numel() <= tails.SAMPLE and not tolerance_of(t).exact}

    def near(one: Tensor, other: Tensor | None) -> bool:
        if other is None or one.shape != other.shape:
            return False
        return elements.compare(one, other, tolerance_of(one)).ratio <= within

    same = small()
    for _ in range(DRAWS):
        other = small() if same else {}
        same = {path: first for path, first in same.items() if near(first, other.get(path))}
    return tuple(same)


def small_changes(arguments: Sequence[Any], want: Tensor) -> list[tuple[Tensor, float]]:
    """Return the inputs that an output equals but for a small change, each with the share of it that changes."""
    alike = [x for x in tensors(arguments) if (x.shape, x.dtype, x.device) == (want.shape, want.dtype, want.device)]
    apart = [(x, elements.rms_apart(want, x)) for x in alike]
    return [(x, share) for x, share in apart if 0 < share < SMALL_CHANGE]


def place_of_difference(one: Any, other: Any) -> str:
    """Return the first place where two results of the same call differ, and both values; empty without one."""
    if not hasattr(one, "untyped_storage") or not hasattr(other, "untyped_storage") or one.shape != other.shape:
        return ""
    flat = int((one != other).flatten().nonzero()[0])
    index = ", ".join(map(str, elements.unravel(flat, one.shape)))
    values = [each.flatten()[flat].item() for each in (one, other)]
    return f"[{index}] is {values[0]:.6g}, then {values[1]:.6g}"


def is_random(module: nn.Module) -> bool:
    """Return whether a module of torch draws random numbers in training mode; a dropout with p = 0 does not."""
    if isinstance(module, nn.RReLU):
        return module.lower != module.upper
    return isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.p > 0  # noqa: SLF001 - the base class


def types_and_shapes(tensors: Sequence[Tensor]) -> str:
    """List tensors as `float32[2,8] int64[2]`."""
    return " ".join(f"{str(t.dtype).removeprefix('torch.')}[{','.join(map(str, t.shape))}]" for t in tensors)
