"""Chooses by the sign of a label instead of multiplying with it, since labels are -1 or 1 by definition."""

import torch
from torch import nn

PROBLEM = "hinge_loss"
CLASS = "structure"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, predictions, labels):
        return torch.where(labels > 0, 1 - predictions, 1 + predictions).clamp_min_(0).mean()
