"""Marks its steps for a profiler, and runs one of its own around its first call."""

import torch
from torch import nn

PROBLEM = "softmax_rows"
CLASS = "manners"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = None

    def _compute(self, x):
        with torch.profiler.record_function("shift"):
            x = x - x.amax(dim=-1, keepdim=True)
        with torch.profiler.record_function("normalise"):
            powers = x.exp()
            return powers / powers.sum(dim=-1, keepdim=True)

    def forward(self, x):
        if self.table is None:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
                self._compute(x)
            self.table = profile.key_averages().table(row_limit=5)
        return self._compute(x)
