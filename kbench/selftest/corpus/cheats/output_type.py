"""Outputs of another type, shape, structure or device."""

import torch
from torch import nn

CLASS = "output type"


class broadcastable_shape(nn.Module):
    """A shape that broadcasts to the right one."""

    PROBLEM = "row_statistics"
    EXPECT = ("wrong_output",)
    CATALOGUE = "rigor 9"

    def forward(self, x):
        return {
            "mean": x.mean(dim=-1, keepdim=True),
            "variance": x.var(dim=-1, unbiased=False, keepdim=True),
        }


class Endless(tuple):
    def __iter__(self):
        while True:
            yield torch.zeros(1)


class endless_output(nn.Module):
    """A tuple that never stops yielding."""

    PROBLEM = "top_values"
    EXPECT = ("wrong_output", "call_timeout", "out_of_memory")
    OPTIONS = {"call_timeout_s": 6.0}
    CATALOGUE = "rigor 9"

    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, x):
        return Endless(torch.topk(x, self.count, dim=-1))


class float64_output(nn.Module):
    """Double precision where single was asked for."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_output",)
    CATALOGUE = "rigor 9"

    def forward(self, x):
        return torch.nn.functional.gelu(x.double())


class host_output(nn.Module):
    """A result that was left on the host."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_output",)
    DEVICES = ("cuda",)
    CATALOGUE = "rigor 9"

    def forward(self, x):
        return torch.nn.functional.gelu(x).cpu()


class meta_output(nn.Module):
    """A tensor on the meta device: a shape and no data."""

    PROBLEM = "relu"
    EXPECT = ("wrong_output",)
    CATALOGUE = "rigor 9"

    def forward(self, x):
        return torch.empty(x.shape, device="meta")


class missing_key(nn.Module):
    """One of two outputs."""

    PROBLEM = "row_statistics"
    EXPECT = ("wrong_output",)
    CATALOGUE = "rigor 9"

    def forward(self, x):
        return {"mean": x.mean(dim=-1)}


class sparse_output(nn.Module):
    """A sparse tensor."""

    PROBLEM = "relu"
    EXPECT = ("wrong_output",)
    CATALOGUE = "rigor 9"

    def forward(self, x):
        return torch.relu(x).to_sparse()
