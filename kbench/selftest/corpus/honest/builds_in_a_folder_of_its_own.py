"""Names a build folder of its own, below the current one: what is built there must be found again."""

import ctypes
import os

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "relu"
CLASS = "builds"
DEVICES = ("cpu",)

SOURCE = r"""
extern "C" int own_folder_relu(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = x[i] > 0 || x[i] != x[i] ? x[i] : 0;
  return 0;
}
"""
os.makedirs("build", exist_ok=True)
LIBRARY = ctypes.CDLL(
    load_inline(
        "kbench_selftest_own_folder",
        cpp_sources=[SOURCE],
        build_directory="build",
        no_implicit_headers=True,
        is_python_module=False,
    )
)
LIBRARY.own_folder_relu.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        LIBRARY.own_folder_relu(x.data_ptr(), y.data_ptr(), x.numel())
        return y
