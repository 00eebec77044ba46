"""CUDA source without torch's headers, called through ctypes."""

import ctypes

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "layer_norm"
CLASS = "kernels"
OPTIONS = {"require_custom": True}
DEVICES = ("cuda",)

SOURCE = r"""
__device__ float block_sum(float value) {
  __shared__ float sums[32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(~0u, value, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0;
  for (unsigned i = 0; i < blockDim.x / 32; ++i) total += sums[i];
  return total;
}
__global__ void normalise(const float* x, const float* w, const float* b, float* y, int n) {
  const float* row = x + size_t(blockIdx.x) * n;
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += row[i];
  const float mean = block_sum(sum) / n;
  float squares = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) squares += (row[i] - mean) * (row[i] - mean);
  const float inverse = rsqrtf(block_sum(squares) / n + 1e-5f);
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    y[size_t(blockIdx.x) * n + i] = (row[i] - mean) * inverse * w[i] + b[i];
}
extern "C" int launch(const float* x, const float* w, const float* b, float* y, int rows, int n, void* stream) {
  normalise<<<rows, 256, 0, (cudaStream_t)stream>>>(x, w, b, y, n);
  return cudaGetLastError();
}
"""
LIBRARY = ctypes.CDLL(
    load_inline(
        "kbench_selftest_inline_cuda",
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
