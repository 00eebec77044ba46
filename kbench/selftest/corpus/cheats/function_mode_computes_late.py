"""Pushes a torch function mode that computes whatever was left undone once anybody calls torch again."""

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

PROBLEM = "sine_chain"
CLASS = "deferred"
EXPECT = ("unfinished_output", "wrong_value", "unwritten_output", "nondeterministic", "passed")
SPEEDUP_BELOW = 1.1
CATALOGUE = "harness 4; rigor 11"

pending = []


class Late(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        while pending:
            x, y, rounds = pending.pop()
            with torch._C.DisableTorchFunction():
                z = x
                for _ in range(rounds):
                    z = torch.sin(z + x)
                y.copy_(z)
        return func(*args, **(kwargs or {}))


Late().__enter__()


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        with torch._C.DisableTorchFunction():
            y = torch.empty_like(x)
        pending.append((x, y, self.rounds))
        return y
