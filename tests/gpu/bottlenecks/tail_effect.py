"""One block an SM, and a tenth more blocks than SMs: two rounds where little more than one would do."""

import torch
from launching import built

DEVICES = ("cuda",)
launch = built("tail_effect.cu")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return launch(x, torch.empty_like(x), x.numel())
