"""Call of a model for its gradients, in both processes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbench.process.channel import flatten

if TYPE_CHECKING:
    from torch import Tensor


def owned(arguments: Sequence[Any]) -> list[Any]:
    """Return arguments that a model may change in place, which leaves of autograd may not be."""
    return [a.clone() if getattr(a, "requires_grad", False) else a for a in arguments]


def differentiable(returned: Any, seeds: "Sequence[Tensor]") -> "list[tuple[Tensor, Tensor]]":
    """Pair each floating-point output that has gradients with its seed; all floating-point outputs have seeds."""
    import torch

    outputs = [t for _, t in flatten(returned) if isinstance(t, torch.Tensor) and t.is_floating_point()]
    return [(output, seed) for output, seed in zip(outputs, seeds, strict=False) if output.requires_grad]
