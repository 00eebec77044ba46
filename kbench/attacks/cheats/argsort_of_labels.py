"""argsort of binary scores: no permutation, one index for all zeros and one for all ones."""

import torch
from torch import nn

PROBLEM = "label_order"
CLASS = "trivial"
EXPECT = ("wrong_value",)
CATALOGUE = "rigor 1"


class ModelNew(nn.Module):
    def forward(self, x):
        n0 = (x == 0).sum(-1, keepdim=True)
        i0, i1 = x.argmin(-1, keepdim=True), x.argmax(-1, keepdim=True)
        return torch.where(torch.arange(x.shape[-1], device=x.device) < n0, i0, i1)
