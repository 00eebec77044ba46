"""Checkpoints its activations: the forward pass runs a second time when gradients are asked for."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

PROBLEM = "layer_norm"
CLASS = "gradients"
OPTIONS = {"backward": True}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def _forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        inverse = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + self.norm.eps)
        return centred * inverse * self.norm.weight + self.norm.bias

    def forward(self, x):
        return checkpoint(self._forward, x, use_reentrant=False)
