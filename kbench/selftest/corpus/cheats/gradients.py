"""Right values with wrong gradients."""

import torch
from torch import nn

CLASS = "gradients"


class detached_gradient(nn.Module):
    """Right values whose gradients lack a term: the variance is taken for a constant."""

    PROBLEM = "layer_norm"
    EXPECT = ("wrong_gradient",)
    OPTIONS = {"backward": True}
    CATALOGUE = "rigor 3.4"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        inverse = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + self.norm.eps)
        return centred * inverse.detach() * self.norm.weight + self.norm.bias


first = {}


class Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *leaves):
        ctx.save_for_backward(*leaves)
        return norm(*leaves)

    @staticmethod
    def backward(ctx, grad):
        key = grad.shape
        if key not in first:
            leaves = [leaf.detach().requires_grad_() for leaf in ctx.saved_tensors]
            with torch.enable_grad():
                first[key] = torch.autograd.grad(norm(*leaves), leaves, grad)
        return tuple(found.clone() for found in first[key])


def norm(x, weight, bias):
    return nn.functional.layer_norm(x, weight.shape, weight, bias)


class replays_the_first_gradient(nn.Module):
    """Remembers the gradients that it computed first, and returns them ever after."""

    PROBLEM = "layer_norm"
    EXPECT = ("wrong_gradient",)
    OPTIONS = {"backward": True}
    CATALOGUE = "harness 11"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return Replay.apply(x, self.norm.weight, self.norm.bias)
