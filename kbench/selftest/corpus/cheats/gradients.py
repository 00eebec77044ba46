"""Right values with wrong gradients."""

import torch
from torch import nn

CLASS = "gradients"


class detached_gradient(nn.Module):
    """Right values whose gradients lack a term: the variance is taken for a constant."""

    PROBLEM = "layer_norm"
    EXPECT = ("wrong_value",)
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
    EXPECT = ("wrong_value",)
    OPTIONS = {"backward": True}
    CATALOGUE = "harness 11"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return Replay.apply(x, self.norm.weight, self.norm.bias)


class Previous(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *leaves):
        ctx.save_for_backward(*leaves)
        return norm(*leaves)

    @staticmethod
    def backward(ctx, grad):
        leaves = [leaf.detach().requires_grad_() for leaf in ctx.saved_tensors]
        with torch.enable_grad():
            found = torch.autograd.grad(norm(*leaves), leaves, grad)
        before, last[grad.shape] = last.get(grad.shape, found), found
        return tuple(gradient.clone() for gradient in before)


last = {}


class returns_the_previous_gradient(nn.Module):
    """Returns the gradients of the call before: a call's own would be computed after the clock has stopped."""

    PROBLEM = "layer_norm"
    EXPECT = ("wrong_value",)
    OPTIONS = {"backward": True}
    CATALOGUE = "harness 11"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return Previous.apply(x, self.norm.weight, self.norm.bias)


class Guessed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *leaves):
        with torch.enable_grad():
            leaves = [leaf.detach().requires_grad_() for leaf in leaves]
            result = norm(*leaves)
            ctx.found = torch.autograd.grad(result, leaves, torch.ones_like(result))
        return result.detach()

    @staticmethod
    def backward(ctx, grad):
        return ctx.found


class differentiates_in_the_forward(nn.Module):
    """Computes gradients in the forward pass, as if those of the outputs were ones, which `sum().backward()` has."""

    PROBLEM = "layer_norm"
    EXPECT = ("wrong_value",)
    OPTIONS = {"backward": True}
    CATALOGUE = "rigor 3.4"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return Guessed.apply(x, self.norm.weight, self.norm.bias)
