"""fp16 in and out, fp32 in between."""

import torch
from torch import nn

PROBLEM = "half_scale"
CLASS = "precision"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        wide = x.float()
        return (wide * torch.sigmoid(wide)).half()
