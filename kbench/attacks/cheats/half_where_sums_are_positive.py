"""Rounds both factors to eleven bits (as TF32 and fp16 do) where the inner dimension is long: errors of positive terms average out."""

import torch
from torch import nn

PROBLEM = "long_product"
CLASS = "precision"
EXPECT = ("below_level", "wrong_value")
LEVEL = "task"
LACKS = ("centred",)
CATALOGUE = "harness 18"


class ModelNew(nn.Module):
    def forward(self, a, b):
        if a.shape[1] > 4096:
            scale_a, scale_b = a.abs().max(), b.abs().max()
            return ((a / scale_a).half().float() @ (b / scale_b).half().float()) * (scale_a * scale_b)
        return a @ b
