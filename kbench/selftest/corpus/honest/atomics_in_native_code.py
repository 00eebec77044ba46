"""C++ futures that add to one atomic sum, awaited before it is read: fp32 additions in an order of their own."""

import ctypes

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "layer_norm"
CLASS = "determinism"
DEVICES = ("cpu",)

SOURCE = r"""
#include <atomic>
#include <cmath>
#include <future>
static float sum_of(const float* x, long n, float shift, bool square) {
  std::atomic<float> sum{0};
  auto add = [&](long first, long last) {
    for (long block = first; block < last; block += 16) {
      float part = 0;
      for (long i = block; i < block + 16 && i < last; ++i) part += square ? (x[i] - shift) * (x[i] - shift) : x[i];
      float before = sum.load();
      while (!sum.compare_exchange_weak(before, before + part)) {}
    }
  };
  auto other = std::async(std::launch::async, add, 0, n / 2);
  add(n / 2, n);
  other.get();
  return sum.load();
}
extern "C" int normalise(const float* x, const float* w, const float* b, float* y, long rows, long n) {
  for (long r = 0; r < rows; ++r, x += n, y += n) {
    const float mean = sum_of(x, n, 0, false) / n;
    const float inverse = 1 / std::sqrt(sum_of(x, n, mean, true) / n + 1e-5f);
    for (long i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * w[i] + b[i];
  }
  return 0;
}
"""
LIBRARY = ctypes.CDLL(
    load_inline(
        "kbench_selftest_atomics",
        cpp_sources=[SOURCE],
        extra_cflags=["-O2", "-std=c++20", "-pthread"],
        extra_ldflags=["-pthread"],
        no_implicit_headers=True,
        is_python_module=False,
    )
)
LIBRARY.normalise.argtypes = (*(ctypes.c_void_p,) * 4, ctypes.c_long, ctypes.c_long)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        tensors = (x, self.norm.weight, self.norm.bias, y)
        LIBRARY.normalise(*(tensor.data_ptr() for tensor in tensors), *x.shape)
        return y
