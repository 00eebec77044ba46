"""Solutions that call libraries and features of torch in unusual ways."""

import numpy
import torch
from torch import nn

CLASS = "libraries"


class another_operation_of_the_library(nn.Module):
    """Calls group normalisation with one group where the reference calls layer normalisation."""

    PROBLEM = "layer_norm"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return torch.nn.functional.group_norm(x, 1, self.norm.weight, self.norm.bias, self.norm.eps)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight, grad.t() @ x, grad.sum(0)


class autograd_function(nn.Module):
    """A custom autograd function, called with gradients enabled."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        with torch.enable_grad():
            return Product.apply(x, self.fc.weight, self.fc.bias)


class called_functionally(nn.Module):
    """Calls a copy of itself with its parameters handed in from outside, by torch.func."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        state = {name: tensor.detach() for name, tensor in self.fc.named_parameters()}
        return torch.func.functional_call(self.fc, state, (x,))


class distances_by_norm(nn.Module):
    """Distances by a library call, in double precision."""

    PROBLEM = "double_distances"

    def forward(self, a, b):
        return torch.linalg.vector_norm(a[:, None] - b[None], dim=-1)


class inference_mode(nn.Module):
    """Runs under inference mode, so that its results are inference tensors."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    @torch.inference_mode()
    def forward(self, x):
        return self.fc(x)


class mapped_over_rows(nn.Module):
    """torch.func.vmap over rows: inside, tensors are of another kind; what comes out is plain."""

    PROBLEM = "layer_norm"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        def row(values):
            centred = values - values.mean()
            return centred * torch.rsqrt(centred.square().mean() + self.norm.eps)

        return torch.func.vmap(row)(x) * self.norm.weight + self.norm.bias


class numpy_inside(nn.Module):
    """NumPy does the work on the tensor's own memory; the result is a new array."""

    PROBLEM = "layer_norm"
    DEVICES = ("cpu",)

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        values = x.numpy()
        mean = values.mean(axis=-1, keepdims=True, dtype=numpy.float64)
        variance = ((values - mean) ** 2).mean(axis=-1, keepdims=True)
        y = (values - mean) / numpy.sqrt(variance + self.norm.eps)
        y = y * self.norm.weight.detach().numpy() + self.norm.bias.detach().numpy()
        return torch.from_numpy(y.astype(numpy.float32))


aten = torch.ops.aten


class operators_by_overload(nn.Module):
    """Calls the dispatcher's operators by name and overload instead of torch's functions."""

    PROBLEM = "layer_norm"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        mean = aten.mean.dim(x, [-1], True)
        centred = aten.sub.Tensor(x, mean)
        variance = aten.mean.dim(aten.mul.Tensor(centred, centred), [-1], True)
        scaled = aten.mul.Tensor(centred, aten.rsqrt.default(aten.add.Scalar(variance, self.norm.eps)))
        return aten.add.Tensor(aten.mul.Tensor(scaled, self.norm.weight), self.norm.bias)


class Counted(torch.Tensor):
    operations = 0

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        cls.operations += 1
        return super().__torch_function__(function, types, arguments, keywords or {})


class tensor_subclass_inside(nn.Module):
    """Wraps its input in a tensor class that counts operations, and takes the wrapping off before it returns."""

    PROBLEM = "gelu"

    def forward(self, x):
        counted = x.as_subclass(Counted)
        return (0.5 * counted * (1 + torch.erf(counted * 0.5**0.5))).as_subclass(torch.Tensor)
