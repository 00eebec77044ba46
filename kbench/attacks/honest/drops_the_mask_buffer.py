"""Uses a causal flag instead of a registered mask; layers have the reference's names, declared in another order."""

import torch
from torch import nn

PROBLEM = "masked_attention"
CLASS = "weights"


class ModelNew(nn.Module):
    def __init__(self, width, length):
        super().__init__()
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.query = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
