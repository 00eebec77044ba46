"""What may stand in the arguments and results of a problem: what can be copied between processes, and compared."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kbench.core.errors import PluginError
from kbench.wire.shared_memory import layout_of

PLAIN = (bool, int, float, complex, str, type(None))


def require_comparable(leaves: Sequence[tuple[str, Any]], *, changes_inputs: bool) -> None:
    """Raise PluginError where a leaf is neither a tensor nor a plain value, or where there is nothing to compare."""
    if not changes_inputs and all(leaf is None for _, leaf in leaves):
        raise PluginError("the reference returns nothing to compare", "`return` the result in `forward`")
    for path, leaf in leaves:
        if not isinstance(leaf, (Tensor, torch.dtype, torch.device, bytes, *PLAIN)):
            kind = f"{type(leaf).__module__}.{type(leaf).__qualname__}"
            raise PluginError(
                f"{path} of the reference is a {kind}, which cannot be compared",
                hint="return tensors, numbers, strings or None, in tuples, lists, dicts or dataclasses",
            )


def require_supported(leaves: Sequence[tuple[str, Any]], whose: str) -> None:
    """Raise PluginError where a tensor is sparse, nested or quantised, or of complex numbers of 16 bits.

    The former have no one block of memory to be shared; torch has neither sums nor products of the latter on a CPU.
    """
    for path, leaf in leaves:
        if not hasattr(leaf, "untyped_storage"):
            continue
        if layout := layout_of(leaf):
            raise PluginError(
                f"{path} {whose} is a {layout} tensor; only dense (strided) ones are supported",
                hint="`to_dense`, `to_padded_tensor` or `dequantize` makes one",
            )
        if leaf.dtype is torch.complex32:
            raise PluginError(f"{path} {whose} is a tensor of complex32, which is not supported", "use complex64")


def require_own_elements(state: Sequence[tuple[str, Any]]) -> None:
    """Raise PluginError where elements of a parameter share memory: it could not be given other values."""
    for name, tensor in state:
        strides = zip(tensor.shape, tensor.stride(), strict=True)
        if any(size > 1 and stride == 0 for size, stride in strides):
            raise PluginError(
                f"`{name}` of the reference is expanded: several of its elements are one",
                hint="`clone` it before it becomes a parameter",
            )
