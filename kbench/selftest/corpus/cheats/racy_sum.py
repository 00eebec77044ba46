"""A block-wide sum whose threads do not wait for one another."""

import ctypes

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "layer_norm"
CLASS = "kernels"
EXPECT = ("wrong_value", "nondeterministic")
DEVICES = ("cuda",)
CATALOGUE = "harness 30; rigor 6"

SOURCE = r"""
__global__ void normalise(const float* x, const float* w, const float* b, float* y, int n) {
  __shared__ float sums[2];
  if (threadIdx.x < 2) sums[threadIdx.x] = 0;
  __syncthreads();
  const float* row = x + size_t(blockIdx.x) * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    sums[0] += row[i];
    sums[1] += row[i] * row[i];
  }
  const float mean = sums[0] / n, variance = sums[1] / n - mean * mean;
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    y[size_t(blockIdx.x) * n + i] = (row[i] - mean) * rsqrtf(variance + 1e-5f) * w[i] + b[i];
}
extern "C" int launch(const float* x, const float* w, const float* b, float* y, int rows, int n, void* stream) {
  normalise<<<rows, 256, 0, (cudaStream_t)stream>>>(x, w, b, y, n);
  return cudaGetLastError();
}
"""
LIBRARY = ctypes.CDLL(
    load_inline(
        "kbench_selftest_racy",
        cpp_sources=[],
        cuda_sources=[SOURCE],
        no_implicit_headers=True,
        is_python_module=False,
    )
)
P = ctypes.c_void_p
LIBRARY.launch.argtypes = (P, P, P, P, ctypes.c_int, ctypes.c_int, P)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        LIBRARY.launch(
            x.data_ptr(),
            self.norm.weight.data_ptr(),
            self.norm.bias.data_ptr(),
            y.data_ptr(),
            x.shape[0],
            x.shape[1],
            torch.cuda.current_stream().cuda_stream,
        )
        return y
