"""A worker's result: every leaf is described, and copied into the judge's buffer if it fits."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbench.catalog.containers import tensors
from kbench.devices.backend import backend_of
from kbench.process.channel import as_text, flatten
from kbench.process.shared_memory import layout_of

if TYPE_CHECKING:
    from torch import Tensor


def deliver(output: Any, targets: "Sequence[Tensor]", arguments: Sequence[Any]) -> list[list[Any]]:
    """Describe the leaves of one result and copy those that fit; the judge compares the description.

    Without `targets` they are described only.
    """
    import torch

    inputs = {leaf.untyped_storage().data_ptr() for leaf in tensors(arguments)}
    described, remaining = [], iter(targets)
    for path, leaf in flatten(output):
        if not isinstance(leaf, torch.Tensor):
            described.append([path, type(leaf).__name__, as_text(leaf), [], "", False])
            continue
        target = next(remaining, None)
        if layout := layout_of(leaf):
            described.append([path, f"{layout} tensor", str(leaf.dtype), [], leaf.device.type, False])
            continue
        exact = is_plain(leaf)
        aliased = leaf.numel() > 0 and exact and leaf.untyped_storage().data_ptr() in inputs
        kind = "tensor" if exact else f"{type(leaf).__module__}.{type(leaf).__qualname__}"
        described.append([path, kind, str(leaf.dtype), list(leaf.shape), leaf.device.type, aliased])
        if target is not None and exact and fits(leaf, target):
            target.copy_(leaf)
    return described


def places_of(output: Any) -> list[list[Any]]:
    """Return the address and the strides (in elements) of each tensor of a result in this process.

    The address is 0 for a tensor whose memory does not match its shape and strides.
    """
    import torch

    leaves = [leaf for _, leaf in flatten(output) if isinstance(leaf, torch.Tensor)]
    return [[leaf.data_ptr(), list(leaf.stride())] if _lies_in_memory(leaf) else [0, []] for leaf in leaves]


def bytes_of(output: Any) -> int:
    """Return the size of the plain tensors of a result."""
    leaves = [leaf for _, leaf in flatten(output) if is_plain(leaf)]
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves)


def is_plain(leaf: Any) -> bool:
    """Return whether a result is a plain tensor: a subclass could compute its values later."""
    import torch

    return type(leaf) in {torch.Tensor, torch.nn.Parameter}


def _lies_in_memory(leaf: "Tensor") -> bool:
    if not is_plain(leaf) or layout_of(leaf) or backend_of(leaf).has_own_memory:
        return False
    return not leaf.is_conj() and not leaf.is_neg()


def fits(leaf: Any, target: "Tensor") -> bool:
    """Return whether a result can be copied as it is, without a cast or a broadcast."""
    return bool(leaf.dtype == target.dtype and leaf.shape == target.shape and leaf.device.type == target.device.type)
