"""A product of bf16 operands, returned in fp32: at 1e-5 of it, only who rounds the same sums the same way."""

import torch
from torch import nn
from torch.nn.functional import linear


class Model(nn.Module):
    def __init__(self, features, results):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(results, features) / features**0.5)

    def forward(self, x):
        return linear(x.bfloat16(), self.weight.bfloat16()).float()


batch = 64
features = 512
results = 128
CASES = {"default": {}, "ragged": {"batch": 3, "features": 31, "results": 17}}


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [features, results]
