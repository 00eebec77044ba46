"""The whole chain in one kernel: tens of times faster, and truly so."""

import torch
import triton
import triton.language as tl
from torch import nn
from triton.language.extra import libdevice

PROBLEM = "sine_chain"
CLASS = "speed"
DEVICES = ("cuda",)


@triton.jit
def chain(x_pointer, y_pointer, count, rounds, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_pointer + at, mask=at < count, other=0.0)
    y = x
    for _ in range(rounds):
        y = libdevice.sin(y + x)
    tl.store(y_pointer + at, y, mask=at < count)


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        chain[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), self.rounds, BLOCK=1024)
        return y
