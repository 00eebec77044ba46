"""Writes its source to a temporary file whose name differs each time, and has it compiled from there."""

import ctypes
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.cpp_extension import load

PROBLEM = "scale_bias"
CLASS = "builds"
DEVICES = ("cpu",)

SOURCE = r"""
static float scratch[4096];
extern "C" int affine(const float* x, const float* w, const float* b, float* y, long rows, long n) {
  for (long r = 0; r < rows; ++r)
    for (long i = 0; i < n; ++i) {
      scratch[i % 4096] = x[r * n + i] * w[i];
      y[r * n + i] = scratch[i % 4096] + b[i];
    }
  return 0;
}
"""
folder = Path(tempfile.mkdtemp())
(folder / "affine.cpp").write_text(SOURCE)
LIBRARY = ctypes.CDLL(
    load("kbench_selftest_written", sources=[str(folder / "affine.cpp")], is_python_module=False, verbose=True)
)
LIBRARY.affine.argtypes = (*(ctypes.c_void_p,) * 4, ctypes.c_long, ctypes.c_long)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        tensors = (x, self.weight, self.bias, y)
        LIBRARY.affine(*(tensor.data_ptr() for tensor in tensors), *x.shape)
        return y
