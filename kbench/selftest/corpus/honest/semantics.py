"""Solutions that treat some inputs in another way, with the same results."""

import torch
from torch import nn

CLASS = "semantics"


class averages_under_the_mask(nn.Module):
    """Multiplies by the mask as numbers, and takes the power that it is given."""

    PROBLEM = "masked_power"
    FINDINGS = ("unvaried_input",)

    def forward(self, x, mask, power):
        weights = mask.to(x.dtype)
        return (torch.pow(x.abs(), power) * weights).sum(-1) / weights.sum(-1).clamp(min=1)


class dispatches_on_shape(nn.Module):
    """A fast path for whole vectors of contiguous inputs, and a general one for the rest."""

    PROBLEM = "swish_rows"

    def forward(self, x):
        if x.numel() % 4 == 0 and x.is_contiguous():
            vectors = x.view(-1, 4)
            return (vectors * torch.sigmoid(vectors)).view(x.shape)
        return torch.nn.functional.silu(x)


class refuses_other_shapes(nn.Module):
    """A kernel that was made for one shape and for contiguous inputs, and says so at others."""

    PROBLEM = "swish_rows"
    LEVEL = "module"
    LACKS = ("shapes", "strides")

    def forward(self, x):
        if x.shape != (64, 2048) or not x.is_contiguous():
            raise ValueError(f"made for a contiguous (64, 2048), got {tuple(x.shape)}")
        return torch.nn.functional.silu(x)


class cholesky_of_definite(nn.Module):
    """Solves by Cholesky, which takes no other matrices than positive definite ones: all that are drawn are."""

    PROBLEM = "definite_system"

    def forward(self, a, b):
        return torch.cholesky_solve(b, torch.linalg.cholesky(a))


class lower_half_of_definite(nn.Module):
    """Reads one half of a symmetric matrix."""

    PROBLEM = "definite_system"

    def forward(self, a, b):
        return torch.linalg.solve(a.tril() + a.tril(-1).mT, b)


class relu_left_out_where_all_are_positive(nn.Module):
    """Leaves ReLU out where no value is negative, and reads all of them to know."""

    PROBLEM = "relu"

    def forward(self, x):
        return x.clone() if bool((x >= 0).all()) else torch.relu(x)


class whole_table(nn.Module):
    """Reads the whole table, by a product with counts of the indices."""

    PROBLEM = "part_of_a_table"

    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(rows, width))

    def forward(self, indices):
        counts = torch.zeros(len(indices), self.table.shape[0], device=self.table.device)
        counts.scatter_add_(1, indices, torch.ones_like(indices, dtype=counts.dtype))
        return counts @ self.table
