"""A custom autograd Function with a decorated once_differentiable backward, gradients verified."""

import torch
from torch import nn
from torch.autograd.function import once_differentiable

PROBLEM = "gelu"
CLASS = "gradients"
OPTIONS = {"backward": True}


class Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.special.ndtr(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (torch.special.ndtr(x) + x * torch.exp(-x * x / 2) * 0.3989422804014327)


class ModelNew(nn.Module):
    def forward(self, x):
        return Gelu.apply(x)
