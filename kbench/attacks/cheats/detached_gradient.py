"""Right values whose gradients lack a term: the variance is taken for a constant."""

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "gradients"
EXPECT = ("wrong_gradient",)
OPTIONS = {"backward": True}
CATALOGUE = "rigor 3.4"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        inverse = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + self.norm.eps)
        return centred * inverse.detach() * self.norm.weight + self.norm.bias
