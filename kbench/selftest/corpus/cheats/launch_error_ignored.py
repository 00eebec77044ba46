"""Asks for more shared memory than there is and does not look at the error: the kernel never runs."""

import ctypes

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "relu"
CLASS = "kernels"
EXPECT = ("unwritten_output", "wrong_value", "nondeterministic", "launch_failed", "raised")
DEVICES = ("cuda",)
CATALOGUE = "rigor 2"

SOURCE = r"""
__global__ void relu(const float* x, float* y, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < n) y[i] = x[i] > 0 ? x[i] : 0;
}
extern "C" void launch(const float* x, float* y, long n, void* stream) {
  relu<<<unsigned((n + 255) / 256), 256, 1 << 20, (cudaStream_t)stream>>>(x, y, n);
  cudaGetLastError();
}
"""
LIBRARY = ctypes.CDLL(
    load_inline(
        "kbench_selftest_launch_error",
        cpp_sources=[],
        cuda_sources=[SOURCE],
        no_implicit_headers=True,
        is_python_module=False,
    )
)
LIBRARY.launch.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_void_p)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        LIBRARY.launch(x.data_ptr(), y.data_ptr(), x.numel(), torch.cuda.current_stream().cuda_stream)
        return y
