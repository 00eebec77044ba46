"""Returns what the step returns, without writing the caches that the next one would need."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

PROBLEM = "cache_step"
CLASS = "semantics"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 23"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, query, key, value, keys, values):
        keys, values = (torch.cat([old[:, :-1], new], 1) for old, new in ((keys, key), (values, value)))
        return scaled_dot_product_attention(query, keys, values)
