"""A thread computes while the clock is stopped already: the copy that collects the result waits for it."""

import threading

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "deferred"
EXPECT = ("tampered", "unfinished_output", "wrong_value", "unwritten_output", "nondeterministic", "wrong_output")
CATALOGUE = "harness 3, 4; rigor 8, 11"

pending = {}
original_copy = torch.Tensor.copy_


def copy_when_ready(self, source, *args, **kwargs):
    thread = pending.pop(id(source), None)
    if thread is not None:
        thread.join()
    return original_copy(self, source, *args, **kwargs)


torch.Tensor.copy_ = copy_when_ready


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = torch.empty_like(x)

        def compute():
            z = x
            for _ in range(self.rounds):
                z = torch.sin(z + x)
            original_copy(y, z)

        pending[id(y)] = threading.Thread(target=compute, daemon=True)
        pending[id(y)].start()
        return y
