"""A hundred kernels, each over before the next is submitted."""

import torch
from launching import built

DEVICES = ("cuda",)
launch = built("launch_bound.cu")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        for _ in range(100):
            launch(x, y, x.numel())
        return y
