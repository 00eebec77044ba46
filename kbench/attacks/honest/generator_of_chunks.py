"""Streams its rows through a chain of generators; lazy inside, and drained before it returns."""

import torch
from torch import nn

PROBLEM = "softmax_rows"
CLASS = "python"


def rows(x):
    yield from x.unbind(0)


def shifted(stream):
    for row in stream:
        yield row - row.max()


def normalised(stream):
    for row in stream:
        powers = row.exp()
        yield powers / powers.sum()


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.stack(list(normalised(shifted(rows(x)))))
