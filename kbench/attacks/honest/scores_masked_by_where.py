"""Chooses between scores and -inf instead of filling."""

import torch
from torch import nn

PROBLEM = "masked_scores"
CLASS = "output"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x, y):
        row = torch.arange(64, device=x.device)
        return torch.where(row[:, None] >= row, torch.relu(x @ y), -torch.inf)
