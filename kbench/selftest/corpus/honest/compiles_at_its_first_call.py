"""Compiles behind an lru_cache when `forward` first needs it, as generated wrappers do that import lazily."""

import ctypes
import functools

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "relu"
CLASS = "builds"
DEVICES = ("cpu",)

SOURCE = r"""
extern "C" int lazy_relu(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = x[i] > 0 || x[i] != x[i] ? x[i] : 0;
  return 0;
}
"""


@functools.lru_cache(maxsize=1)
def library():
    path = load_inline("kbench_selftest_lazy", cpp_sources=[SOURCE], no_implicit_headers=True, is_python_module=False)
    loaded = ctypes.CDLL(path)
    loaded.lazy_relu.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long)
    return loaded


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        library().lazy_relu(x.data_ptr(), y.data_ptr(), x.numel())
        return y
