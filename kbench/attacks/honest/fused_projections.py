"""One parameter for query, key and value together, made from the layers that the reference has."""

import torch
from torch import nn

PROBLEM = "causal_attention"
CLASS = "weights"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("unmatched_weights",)


class ModelNew(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        layers = [nn.Linear(width, width) for _ in range(3)]
        self.weight = nn.Parameter(torch.cat([layer.weight.detach() for layer in layers]))
        self.bias = nn.Parameter(torch.cat([layer.bias.detach() for layer in layers]))
        self.out = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        q, k, v = torch.nn.functional.linear(x, self.weight, self.bias).unflatten(-1, (3, self.heads, -1)).unbind(2)
        y = torch.nn.functional.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
        )
        return self.out(y.transpose(1, 2).flatten(2))
