"""A CUDA extension with torch's headers and a Python module, as most machine-written solutions have."""

from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "gelu"
CLASS = "builds"
DEVICES = ("cuda",)

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
__global__ void gelu_kernel(const float* x, float* y, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < n) y[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
}
torch::Tensor own_gelu(torch::Tensor x) {
  auto dense = x.contiguous();
  auto y = torch::empty_like(dense);
  const long n = dense.numel();
  gelu_kernel<<<unsigned((n + 255) / 256), 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      dense.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}
"""
extension = load_inline(
    "kbench_selftest_cuda_extension",
    cpp_sources=["torch::Tensor own_gelu(torch::Tensor x);"],
    cuda_sources=[CUDA_SOURCE],
    functions=["own_gelu"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.own_gelu(x)
