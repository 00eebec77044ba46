"""Has no ModelNew."""

import torch


def forward(x):
    return torch.nn.functional.gelu(x)
