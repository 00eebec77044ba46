"""Solutions with a backward pass of their own."""

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

CLASS = "gradients"


class backward_with_renamed_parameters(nn.Module):
    """Gradients of parameters under other names, matched by order."""

    PROBLEM = "linear"
    OPTIONS = {"backward": True}

    def __init__(self, inputs, outputs):
        super().__init__()
        self.inner = nn.ModuleList([nn.Linear(inputs, outputs)])

    def forward(self, x):
        return self.inner[0](x)


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


class own_autograd_backward_checked(nn.Module):
    """A custom autograd Function with a decorated once_differentiable backward, gradients verified."""

    PROBLEM = "gelu"
    OPTIONS = {"backward": True}

    def forward(self, x):
        return Gelu.apply(x)


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


class own_backward(nn.Module):
    """An autograd function with a backward pass of its own, judged with gradients."""

    PROBLEM = "layer_norm"
    OPTIONS = {"backward": True}

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return Normalise.apply(x, self.norm.weight, self.norm.bias, self.norm.eps)


class recomputes_in_backward(nn.Module):
    """Checkpoints its activations: the forward pass runs a second time when gradients are asked for."""

    PROBLEM = "layer_norm"
    OPTIONS = {"backward": True}

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def _forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        inverse = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + self.norm.eps)
        return centred * inverse * self.norm.weight + self.norm.bias

    def forward(self, x):
        return checkpoint(self._forward, x, use_reentrant=False)


class NormaliseInPlace(Normalise):
    @staticmethod
    def backward(ctx, grad):
        normal, inverse, weight = ctx.saved_tensors
        to_weight, to_bias = (grad * normal).sum(0), grad.sum(0)
        grad.mul_(weight)
        along = (grad * normal).mean(dim=-1, keepdim=True)
        grad.sub_(grad.mean(dim=-1, keepdim=True)).sub_(normal * along).mul_(inverse)
        return grad, to_weight, to_bias, None


class backward_in_place(nn.Module):
    """Writes the gradient of the input over that of the output, as kernels do that save memory."""

    PROBLEM = "layer_norm"
    OPTIONS = {"backward": True}

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return NormaliseInPlace.apply(x, self.norm.weight, self.norm.bias, self.norm.eps)


class GeluOverInput(Gelu):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        slope = torch.special.ndtr(x) + x * torch.exp(-x * x / 2) * 0.3989422804014327
        return x.copy_(g * slope)


class backward_over_its_input(nn.Module):
    """Writes the gradient over the input that it saved, as a library's kernels do."""

    PROBLEM = "gelu"
    OPTIONS = {"backward": True}

    def forward(self, x):
        return GeluOverInput.apply(x)
