"""A C++ extension with torch's headers and a Python module, its loop shared by torch's threads (at::parallel_for)."""

from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "gelu"
CLASS = "builds"
DEVICES = ("cpu",)

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/Parallel.h>
#include <cmath>
torch::Tensor own_gelu(torch::Tensor x) {
  auto dense = x.contiguous();
  auto y = torch::empty_like(dense);
  const float* from = dense.data_ptr<float>();
  float* to = y.data_ptr<float>();
  at::parallel_for(0, dense.numel(), 1024, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) to[i] = 0.5f * from[i] * (1.0f + std::erf(from[i] * 0.70710678f));
  });
  return y;
}
"""
extension = load_inline(
    "kbench_selftest_extension",
    cpp_sources=[SOURCE],
    functions=["own_gelu"],
    extra_cflags=["-fopenmp"],
    extra_ldflags=["-fopenmp"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.own_gelu(x)
