"""Hands out unwritten memory and lets a detached C++ thread fill it later."""

import ctypes

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "sine_chain"
CLASS = "deferred"
EXPECT = ("wrong_value", "unwritten_output", "nondeterministic")
DEVICES = ("cpu",)
CATALOGUE = "harness 2; rigor 8"

SOURCE = r"""
#include <cmath>
#include <thread>
extern "C" void start(const float* x, float* y, long n, long rounds) {
  std::thread([=] {
    for (long i = 0; i < n; ++i) {
      float z = x[i];
      for (long r = 0; r < rounds; ++r) z = std::sin(z + x[i]);
      y[i] = z;
    }
  }).detach();
}
"""
LIBRARY = ctypes.CDLL(
    load_inline(
        "kbench_selftest_native_thread",
        cpp_sources=[SOURCE],
        extra_cflags=["-O3", "-pthread"],
        extra_ldflags=["-pthread"],
        no_implicit_headers=True,
        is_python_module=False,
    )
)
LIBRARY.start.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long)


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        LIBRARY.start(x.data_ptr(), y.data_ptr(), x.numel(), self.rounds)
        return y
