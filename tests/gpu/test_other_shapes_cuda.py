"""Kernels that read and write outside their tensors at other shapes: a lack, whatever it does to the device."""

from pathlib import Path

import pytest
import tiny_corpus
from require import WITH_CUDA
from verdicts import verdicts, written

from kbench.core.model import Passed

pytestmark = WITH_CUDA

PROBLEM = tiny_corpus.problem(
    "torch.relu(x) * 2", given="torch.randn(rows, columns)", constants="rows, columns = 64, 65536"
)
KERNEL = """
import torch
import triton
import triton.language as tl
from torch import nn
@triton.jit
def doubled(x, y, n, BLOCK: tl.constexpr):
    at = FIRST + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.maximum(tl.load(x + at), 0.0) * 2)
class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        doubled[(64 * 65536 // 256,)](x.contiguous(), y, x.numel(), BLOCK=256)
        return y
"""
WAYS = {"beyond": "0", "far_beyond": "(64 * 65536 - n).to(tl.int64) * 1000000"}
"""Where the first block begins: at any other size, outside the tensors or far outside."""


@pytest.mark.slow(seconds=60)
def test_a_grid_that_is_fixed_keeps_a_kernel_from_general_only(tmp_path: Path) -> None:
    sources = {name: KERNEL.replace("FIRST", first) for name, first in WAYS.items()}
    judged = verdicts(*written(tmp_path, PROBLEM, sources), results_dir=tmp_path, device="cuda")
    for name in WAYS:
        outcome = judged[name].outcome
        assert isinstance(outcome, Passed), outcome
        assert outcome.level == "module", outcome
        assert "shapes" in outcome.lacks, outcome
