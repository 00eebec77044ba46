"""A linear layer without its bias."""

from torch import nn

PROBLEM = "linear"
CLASS = "numerics"
EXPECT = ("wrong_value",)
CATALOGUE = "rigor 18"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        return x @ self.fc.weight.t()
