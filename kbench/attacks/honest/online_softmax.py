"""Softmax in blocks with a running maximum and sum."""

import torch
from torch import nn

PROBLEM = "softmax_rows"
CLASS = "summation order"


class ModelNew(nn.Module):
    def forward(self, x):
        top = torch.full((x.shape[0], 1), float("-inf"), device=x.device)
        total = torch.zeros_like(top)
        for block in x.split(8192, dim=-1):
            new_top = torch.maximum(top, block.amax(dim=-1, keepdim=True))
            total = total * torch.exp(top - new_top) + torch.exp(block - new_top).sum(dim=-1, keepdim=True)
            top = new_top
        return torch.exp(x - top) / total
