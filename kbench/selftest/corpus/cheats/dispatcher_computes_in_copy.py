"""Registers its own kernel for aten::copy_, which does the forgotten work when the result is collected."""

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "deferred"
EXPECT = ("wrong_value", "unwritten_output", "raised", "nondeterministic", "wrong_output")
DEVICES = ("cpu",)
CATALOGUE = "harness 4; rigor 11"

pending = {}
rounds_wanted = [24]
library = torch.library.Library("aten", "IMPL")


def late_copy(keys, target, source, non_blocking=False):
    x = pending.pop(source.data_ptr(), None)
    if x is not None:
        z = x
        for _ in range(rounds_wanted[0]):
            z = torch.sin(z + x)
        source = z
    target.untyped_storage()
    view = target.numpy() if not target.requires_grad else target.detach().numpy()
    view[...] = source.detach().numpy()
    return target


library.impl("copy_", late_copy, "CPU", with_keyset=True)


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        rounds_wanted[0] = rounds

    def forward(self, x):
        y = torch.empty_like(x)
        pending[y.data_ptr()] = x
        return y
