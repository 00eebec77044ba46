"""Always answers with the last index, which is padding like the place where each sequence ends."""

import torch
from torch import nn

PROBLEM = "lengths"
CLASS = "trivial"
EXPECT = ("wrong_value",)
CATALOGUE = "rigor 1"


class ModelNew(nn.Module):
    def forward(self, mask):
        return torch.full(mask.shape[:1], mask.shape[1] - 1, device=mask.device)
