"""Rows first, columns second, by strided maxima in place on its own copy."""

import torch
from torch import nn

PROBLEM = "max_pool"
CLASS = "memory"


def along(x, dim):
    shape = list(x.shape)
    shape[dim] = 1
    edge = x.new_full(shape, float("-inf"))
    x = torch.cat((edge, x, edge), dim)
    count = (x.shape[dim] - 1) // 2
    y = x.narrow(dim, 0, 2 * count).unflatten(dim, (count, 2)).amax(dim + 1)
    return torch.maximum(
        y, x.narrow(dim, 2, x.shape[dim] - 2).index_select(dim, torch.arange(count, device=x.device) * 2), out=y
    )


class ModelNew(nn.Module):
    def forward(self, x):
        return along(along(x, 2), 3)
