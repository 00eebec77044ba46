"""A step of the Lion optimiser, with decoupled weight decay (Chen et al. 2023, algorithm 2)."""

import torch
from torch import nn


rate = 1e-4
decay = 1e-2


class Model(nn.Module):
    """New weights and momentum."""

    def forward(self, weight, gradient, momentum):
        """Three of (256, 256) -> two of (256, 256)."""
        blend = 0.9 * momentum + 0.1 * gradient
        return weight * (1 - rate * decay) - rate * blend.sign(), 0.99 * momentum + 0.01 * gradient


def get_inputs():
    return [torch.randn(256, 256), torch.randn(256, 256), torch.randn(256, 256)]


def get_init_inputs():
    return []
