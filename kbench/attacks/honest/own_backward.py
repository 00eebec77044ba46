"""An autograd function with a backward pass of its own, judged with gradients."""

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "gradients"
OPTIONS = {"backward": True}
SPEED = "fast"


class Normalise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        centred = x - x.mean(dim=-1, keepdim=True)
        inverse = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + eps)
        normal = centred * inverse
        ctx.save_for_backward(normal, inverse, weight)
        return normal * weight + bias

    @staticmethod
    def backward(ctx, grad):
        normal, inverse, weight = ctx.saved_tensors
        g = grad * weight
        along = (g * normal).mean(dim=-1, keepdim=True)
        to_input = inverse * (g - g.mean(dim=-1, keepdim=True) - normal * along)
        return to_input, (grad * normal).sum(0), grad.sum(0), None


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return Normalise.apply(x, self.norm.weight, self.norm.bias, self.norm.eps)
