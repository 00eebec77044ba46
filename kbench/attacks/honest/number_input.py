"""A Python number among the inputs."""

from torch import nn

PROBLEM = "scalar_product"
CLASS = "input"


class ModelNew(nn.Module):
    def forward(self, a, s):
        return s * a
