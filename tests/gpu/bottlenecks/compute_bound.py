"""Eight independent chains a thread, nothing but multiply-adds."""

import torch
from launching import built

DEVICES = ("cuda",)
launch = built("compute_bound.cu")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return launch(x, torch.empty_like(x), x.numel())
