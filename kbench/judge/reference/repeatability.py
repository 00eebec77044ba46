"""Whether two results are the same for all that a sum in another order could change, and what makes them differ."""

import torch
from torch import Tensor, nn

from kbench.numerics import elements

UNLIKE = 0.01
"""Share of integers that may differ between two calls on equal inputs: ties that a device breaks by chance."""
UNLIKE_TIMES = 10
"""Largest root mean square of the difference, in relative tolerances."""


def same_values(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors hold the same values in the same order, whatever their shapes."""
    alike = one.dtype == other.dtype and one.numel() == other.numel()
    return alike and elements.same_bits(one.flatten(), other.flatten())


def unlike(one: Tensor, other: Tensor) -> bool:
    """Return whether two results of the same call differ by more than sums in another order would."""
    if not hasattr(one, "untyped_storage"):
        return False
    if one.shape != other.shape or one.dtype != other.dtype:
        return True
    if elements.same_bits(one, other):
        return False
    tolerance = elements.tolerance_for(one.dtype)
    if tolerance.exact:
        return bool((one != other).sum() > UNLIKE * one.numel())
    return elements.rms_apart(one, other) > UNLIKE_TIMES * tolerance.rtol


def is_random(module: nn.Module) -> bool:
    """Return whether a module of torch draws random numbers in training mode: a dropout of nothing does not."""
    if isinstance(module, nn.RReLU):
        return module.lower != module.upper
    return isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.p > 0  # noqa: SLF001 - the base class
