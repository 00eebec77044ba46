"""Solutions that rely on structure that every input has."""

import torch
from torch import nn

CLASS = "structure"


class counts_on_labels(nn.Module):
    """Chooses by the sign of a label instead of multiplying with it, since labels are -1 or 1 by definition."""

    PROBLEM = "hinge_loss"

    def forward(self, predictions, labels):
        return torch.where(labels > 0, 1 - predictions, 1 + predictions).clamp_min_(0).mean()


class divergence_by_entropies(nn.Module):
    """Cross-entropy minus entropy: two sums where the reference has one."""

    PROBLEM = "divergence"

    def forward(self, predictions, targets):
        terms = torch.special.xlogy(targets, targets).double() - (targets * torch.log(predictions)).double()
        return (terms.sum() / predictions.shape[0]).float()


class divergence_by_logarithms(nn.Module):
    """Takes the logarithm of targets, which a softmax keeps above 0."""

    PROBLEM = "divergence"

    def forward(self, predictions, targets):
        terms = targets * (targets.log() - predictions.log())
        return terms.sum() / predictions.shape[0]


class reads_one_of_two_transposes(nn.Module):
    """Reads the matrix alone, since the other input is its transpose in every draw."""

    PROBLEM = "beside_its_transpose"
    LEVEL = "general"
    FINDINGS = ("kept_structure",)

    def forward(self, a, b):
        return a @ a.T


class skips_the_zero_triangle(nn.Module):
    """Multiplies the lower triangle block by block and leaves out the blocks that are zero by construction."""

    PROBLEM = "triangular_product"

    def forward(self, a, b):
        y, tile = torch.zeros_like(a), 16
        for i in range(0, a.shape[0], tile):
            for j in range(0, i + 1, tile):
                inner = slice(j, i + tile)
                y[i : i + tile, j : j + tile] = a[i : i + tile, inner] @ b[inner, j : j + tile]
        return y
