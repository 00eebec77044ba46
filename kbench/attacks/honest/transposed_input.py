"""A transposed view among the inputs."""

import torch
from torch import nn

PROBLEM = "matrix_product"
CLASS = "input"


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.einsum("ik,kj->ij", a, b)
