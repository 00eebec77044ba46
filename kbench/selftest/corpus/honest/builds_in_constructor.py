"""Compiles its library when the model is constructed, not when the file is imported."""

import ctypes

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "relu"
CLASS = "builds"
DEVICES = ("cpu",)

SOURCE = r"""
extern "C" int own_relu(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = x[i] > 0 || x[i] != x[i] ? x[i] : 0;
  return 0;
}
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        path = load_inline(
            "kbench_selftest_constructor",
            cpp_sources=[SOURCE],
            extra_cflags=["-O2"],
            no_implicit_headers=True,
            is_python_module=False,
        )
        self.library = ctypes.CDLL(path)
        self.library.own_relu.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long)

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        self.library.own_relu(x.data_ptr(), y.data_ptr(), x.numel())
        return y
