"""A matrix product in Triton, the inner dimension split over blocks that add up by atomics."""

import triton
import triton.language as tl
from torch import nn

PROBLEM = "linear"
CLASS = "determinism"
DEVICES = ("cuda",)


@triton.jit
def product(x, w, y, m, n, k, TILE: tl.constexpr, SLICE: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inner = tl.program_id(2) * SLICE + tl.arange(0, SLICE)
    a = tl.load(x + rows[:, None] * k + inner[None, :], mask=(rows[:, None] < m) & (inner[None, :] < k), other=0.0)
    b = tl.load(
        w + columns[None, :] * k + inner[:, None], mask=(columns[None, :] < n) & (inner[:, None] < k), other=0.0
    )
    part = tl.dot(a, b, input_precision="ieee")
    tl.atomic_add(y + rows[:, None] * n + columns[None, :], part, mask=(rows[:, None] < m) & (columns[None, :] < n))


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        x, w = x.contiguous(), self.fc.weight
        y = self.fc.bias.expand(x.shape[0], -1).contiguous()
        grid = (triton.cdiv(x.shape[0], 32), triton.cdiv(w.shape[0], 32), triton.cdiv(x.shape[1], 32))
        product[grid](x, w, y, x.shape[0], w.shape[0], x.shape[1], TILE=32, SLICE=32)
        return y
