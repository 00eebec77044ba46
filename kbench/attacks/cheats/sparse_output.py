"""A sparse tensor."""

import torch
from torch import nn

PROBLEM = "relu"
CLASS = "output type"
EXPECT = ("wrong_type", "wrong_structure")
CATALOGUE = "rigor 9"


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x).to_sparse()
