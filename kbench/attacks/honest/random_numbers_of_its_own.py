"""Seeds torch and draws random numbers in every call, for an order that does not matter."""

import random

import numpy
import torch
from torch import nn

PROBLEM = "row_statistics"
CLASS = "determinism"


class ModelNew(nn.Module):
    def forward(self, x):
        torch.manual_seed(7)
        random.seed(7)
        numpy.random.seed(7)
        order = torch.randperm(x.shape[1]).to(x.device)
        shuffled = x[:, order]
        mean = shuffled.mean(dim=-1)
        return {"mean": mean, "variance": (shuffled - mean[:, None]).square().mean(dim=-1)}
