"""Solutions that treat some inputs in another way, with the same results."""

import torch
from torch import nn

CLASS = "semantics"


class averages_under_the_mask(nn.Module):
    """Multiplies by the mask as numbers, and takes the power that it is given."""

    PROBLEM = "masked_power"
    FINDINGS = ("unvaried_input",)
    SPEED = "fast"

    def forward(self, x, mask, power):
        weights = mask.to(x.dtype)
        return (torch.pow(x.abs(), power) * weights).sum(-1) / weights.sum(-1).clamp(min=1)


class dispatches_on_shape(nn.Module):
    """A fast path for whole vectors of contiguous inputs, and a general one for the rest."""

    PROBLEM = "swish_rows"
    SPEED = "fast"

    def forward(self, x):
        if x.numel() % 4 == 0 and x.is_contiguous():
            vectors = x.view(-1, 4)
            return (vectors * torch.sigmoid(vectors)).view(x.shape)
        return torch.nn.functional.silu(x)


class refuses_other_shapes(nn.Module):
    """A kernel that was made for one shape and for contiguous inputs, and says so at others."""

    PROBLEM = "swish_rows"
    LEVEL = "module"
    LACKS = ("shape_refused", "strided_refused")
    SPEED = "fast"

    def forward(self, x):
        if x.shape != (64, 2048) or not x.is_contiguous():
            raise ValueError(f"made for a contiguous (64, 2048), got {tuple(x.shape)}")
        return torch.nn.functional.silu(x)
