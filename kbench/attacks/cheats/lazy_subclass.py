"""A tensor subclass that computes when somebody looks, which is after the clock stopped."""

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "lazy"
EXPECT = ("wrong_type",)
CATALOGUE = "harness 3; rigor 9"
SPEED = "fast"


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


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        return Later(x, self.rounds)
