"""A custom autograd function, called with gradients enabled."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "libraries"


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight, grad.t() @ x, grad.sum(0)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        with torch.enable_grad():
            return Product.apply(x, self.fc.weight, self.fc.bias)
