"""An absolute value and a product in bf16, as under `autocast`, returned in fp32."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features, results):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(results, features) / features**0.5)

    def forward(self, x):
        return (x.bfloat16().abs() @ self.weight.bfloat16().T).float()


batch = 64
features = 512
results = 128
CASES = {"default": {}, "ragged": {"batch": 3, "features": 31, "results": 17}}


def get_inputs():
    return [torch.rand(batch, features)]


def get_init_inputs():
    return [features, results]
