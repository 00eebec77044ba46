"""Two outputs that are views of one allocation."""

import torch
from torch import nn

PROBLEM = "row_statistics"
CLASS = "output"


class ModelNew(nn.Module):
    def forward(self, x):
        both = torch.empty(2, x.shape[0], device=x.device)
        both[0] = x.mean(dim=-1)
        both[1] = ((x - both[0][:, None]) ** 2).mean(dim=-1)
        return {"mean": both[0], "variance": both[1]}
