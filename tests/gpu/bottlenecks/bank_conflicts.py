"""Transposes tiles in shared memory, whose columns lie in one bank."""

import torch
from launching import built

DEVICES = ("cuda",)
launch = built("bank_conflicts.cu")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return launch(x, torch.empty_like(x), x.shape[0])
