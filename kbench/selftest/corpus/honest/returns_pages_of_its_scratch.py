"""Tells the kernel after each call that it needs the pages of its own scratch memory no more; the result is elsewhere."""

import mmap

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "memory"

scratch = mmap.mmap(-1, 1 << 24)


class ModelNew(nn.Module):
    def forward(self, x):
        room = torch.frombuffer(scratch, dtype=torch.uint8)[: x.numel() * x.element_size()]
        room.view(x.dtype).view(x.shape).copy_(x)
        y = torch.nn.functional.gelu(room.view(x.dtype).view(x.shape).to(x.device))
        scratch.madvise(mmap.MADV_DONTNEED)
        return y
