"""The right values in column-major order."""

from torch import nn

PROBLEM = "linear"
CLASS = "output"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        return (self.fc.weight @ x.t() + self.fc.bias[:, None]).t()
