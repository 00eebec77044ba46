"""True single precision for torch's own operators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def ieee_float32() -> Iterator[None]:
    """Run torch's fp32 convolutions and matrix products without TF32, whatever the process-wide setting is.

    Sets the per-operator flag: `cudnn.flags(allow_tf32=False)` writes the legacy flag, which raises when the
    caller has used the new one (seen with `torch.backends.fp32_precision = "tf32"`, torch 2.13).
    """
    operators = (torch.backends.cudnn.conv, torch.backends.cuda.matmul)
    before = [operator.fp32_precision for operator in operators]
    try:
        for operator in operators:
            operator.fp32_precision = "ieee"
        yield
    finally:
        for operator, precision in zip(operators, before, strict=True):
            operator.fp32_precision = precision
