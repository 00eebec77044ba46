"""Cross-entropy against integer targets, a scalar, through gather."""

import torch
from torch import nn

PROBLEM = "cross_entropy"
CLASS = "input"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, logits, targets):
        logs = torch.log_softmax(logits, dim=-1)
        return -logs.gather(1, targets[:, None]).mean()
