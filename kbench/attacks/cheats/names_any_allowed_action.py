"""The first allowed action, whatever the scores are: the mask is as large there as at the best one."""

import torch
from torch import nn

PROBLEM = "allowed_argmax"
CLASS = "trivial"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 17"


class ModelNew(nn.Module):
    def forward(self, scores, allowed):
        return (allowed != 0).int().argmax(-1)
