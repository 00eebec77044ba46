"""A list where the reference returns a tuple; the values one maximum after the other."""

import torch
from torch import nn

PROBLEM = "top_values"
CLASS = "output"


class ModelNew(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, x):
        rest, values, indices = x.clone(), [], []
        for _ in range(self.count):
            value, index = rest.max(dim=-1)
            values.append(value)
            indices.append(index)
            rest.scatter_(1, index[:, None], float("-inf"))
        return [torch.stack(values, -1), torch.stack(indices, -1)]
