"""The same bits, with less memory."""

import torch
from torch import nn

PROBLEM = "rounded_bits"
CLASS = "precision"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        return (x.view(torch.int32) + 0x8000).bitwise_and_(-65536).view(torch.float32)
