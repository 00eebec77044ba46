"""Writes both caches with other operations than the reference, and attends step by step."""

import torch
from torch import nn

PROBLEM = "cache_step"
CLASS = "input"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, query, key, value, keys, values):
        last = torch.tensor([keys.shape[1] - 1], device=keys.device)
        keys.index_copy_(1, last, key)
        values.index_copy_(1, last, value)
        scores = query @ keys.transpose(1, 2) * query.shape[-1] ** -0.5
        return torch.softmax(scores, -1) @ values
