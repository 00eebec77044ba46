"""A kernel that executes a trap."""

import ctypes

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "relu"
CLASS = "kernels"
EXPECT = ("launch_failed", "illegal_access", "raised", "crashed")
DEVICES = ("cuda",)
CATALOGUE = "rigor 16"

SOURCE = r"""
__global__ void trap() { __trap(); }
extern "C" int launch(void* stream) {
  trap<<<1, 1, 0, (cudaStream_t)stream>>>();
  return cudaGetLastError();
}
"""
LIBRARY = ctypes.CDLL(
    load_inline(
        "kbench_selftest_traps",
        cpp_sources=[],
        cuda_sources=[SOURCE],
        no_implicit_headers=True,
        is_python_module=False,
    )
)
LIBRARY.launch.argtypes = (ctypes.c_void_p,)


class ModelNew(nn.Module):
    def forward(self, x):
        LIBRARY.launch(torch.cuda.current_stream().cuda_stream)
        return torch.relu(x)
