"""GELU in Triton with autotuning, for a user who asked for kernels of one's own."""

import torch
import triton
import triton.language as tl
from torch import nn

PROBLEM = "gelu"
CLASS = "compilers"
OPTIONS = {"require_custom": True}
DEVICES = ("cuda",)


@triton.autotune([triton.Config({"BLOCK": 512}), triton.Config({"BLOCK": 2048}, num_warps=8)], key=["count"])
@triton.jit
def gelu(x_pointer, y_pointer, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_pointer + at, mask=at < count)
    tl.store(y_pointer + at, 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476)), mask=at < count)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        gelu[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
        return y
