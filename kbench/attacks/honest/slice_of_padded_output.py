"""A view into a padded buffer of its own."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "output"


class ModelNew(nn.Module):
    def forward(self, x):
        padded = torch.zeros(x.shape[0], -(-x.shape[1] // 64) * 64 + 64, device=x.device)
        view = padded[:, 3 : 3 + x.shape[1]]
        view.copy_(torch.nn.functional.gelu(x))
        return view
