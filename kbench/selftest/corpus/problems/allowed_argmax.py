"""The best allowed action of each row; the mask is of zeros and ones."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, scores, allowed):
        return scores.masked_fill(allowed == 0, float("-inf")).argmax(-1)


rows = 32
actions = 100
CASES = {"default": {}, "ragged": {"rows": 5, "actions": 37}}


def get_inputs():
    allowed = torch.randint(0, 2, (rows, actions))
    allowed[:, 0] = 1
    return [torch.randn(rows, actions), allowed]


def get_init_inputs():
    return []
