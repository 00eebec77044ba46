"""Rounds both vectors to bf16, whose errors average out."""

import torch
from torch import nn

PROBLEM = "dot_of_positives"
CLASS = "precision"
EXPECT = ("below_level", "wrong_value")
LEVEL = "task"
CATALOGUE = "rigor 18"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x, y):
        return torch.dot(x.bfloat16().float(), y.bfloat16().float())
