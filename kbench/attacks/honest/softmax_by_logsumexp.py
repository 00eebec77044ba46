"""One exponential per value, after its logarithmic sum: no division anywhere."""

import torch
from torch import nn

PROBLEM = "softmax_rows"
CLASS = "summation order"


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.exp(x - torch.logsumexp(x, dim=-1, keepdim=True))
