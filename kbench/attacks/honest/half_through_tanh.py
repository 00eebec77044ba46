"""SiLU by its tanh form, in fp32 between fp16 input and output."""

import torch
from torch import nn

PROBLEM = "half_scale"
CLASS = "precision"


class ModelNew(nn.Module):
    def forward(self, x):
        half = x.float() * 0.5
        return torch.addcmul(half, half, torch.tanh(half)).to(torch.float16)
