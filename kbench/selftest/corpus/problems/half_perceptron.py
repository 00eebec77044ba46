"""A perceptron with a hidden layer, in bf16."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden).bfloat16()
        self.down = nn.Linear(hidden, features).bfloat16()

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


batch = 32
features = 128
hidden = 256
CASES = {"default": {}, "ragged": {"batch": 3, "features": 31, "hidden": 17}}


def get_inputs():
    return [torch.randn(batch, features).bfloat16()]


def get_init_inputs():
    return [features, hidden]
