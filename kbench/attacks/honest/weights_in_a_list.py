"""Parameters in a ParameterList and a ParameterDict: names made of numbers and words that the reference has not."""

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "weights"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.factors = nn.ParameterList([torch.ones(features)])
        self.terms = nn.ParameterDict({"shift": torch.zeros(features)})

    def forward(self, x):
        return torch.addcmul(self.terms["shift"], x, self.factors[0])
