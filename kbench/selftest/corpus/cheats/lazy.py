"""Outputs that compute when somebody reads them."""

import torch
from torch import nn

CLASS = "lazy"


class Pretender:
    def __init__(self, x):
        self._x = x

    @property
    def __class__(self):
        return torch.Tensor

    def __getattr__(self, name):
        return getattr(torch.nn.functional.gelu(self._x), name)


class fake_tensor_class(nn.Module):
    """An object that claims to be a tensor and answers every method lazily."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_output",)
    CATALOGUE = "harness 3; rigor 9"

    def forward(self, x):
        return Pretender(x)


class instance_override(nn.Module):
    """A real tensor of zeros whose methods, overridden on the instance, would compute the answer."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value", "unwritten_output", "wrong_output")
    CATALOGUE = "harness 3; rigor 9"

    def forward(self, x):
        y = torch.zeros_like(x)
        answer = lambda *args, **kwargs: torch.nn.functional.gelu(x)
        for name in ("contiguous", "clone", "to", "cpu", "cuda", "detach", "reshape", "view", "flatten"):
            setattr(y, name, answer)
        return y


class Later(torch.Tensor):
    @staticmethod
    def __new__(cls, x, rounds):
        made = torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype, device=x.device)
        made.x, made.rounds = x, rounds
        return made

    def compute(self):
        y = self.x
        for _ in range(self.rounds):
            y = torch.sin(y + self.x)
        return y

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        real = [a.compute() if isinstance(a, Later) else a for a in args]
        return func(*real, **(kwargs or {}))


class lazy_subclass(nn.Module):
    """A tensor subclass that computes when somebody looks, which is after the clock stopped."""

    PROBLEM = "sine_chain"
    EXPECT = ("wrong_output",)
    CATALOGUE = "harness 3; rigor 9"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        return Later(x, self.rounds)
