"""The same layer two modules down, so that its names have other prefixes."""

from torch import nn

PROBLEM = "linear"
CLASS = "weights"


class Inner(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(inputs, outputs))

    def forward(self, x):
        return self.layers(x)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.inner = Inner(inputs, outputs)

    def forward(self, x):
        return self.inner(x)
