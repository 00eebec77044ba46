"""A kernel that waits for a flag which nobody sets."""

import ctypes

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "relu"
CLASS = "resources"
EXPECT = ("call_timeout",)
OPTIONS = {"call_timeout_s": 5.0}
DEVICES = ("cuda",)
CATALOGUE = "rigor 16"

SOURCE = r"""
__global__ void wait(volatile int* flag) { while (*flag == 0) {} }
extern "C" int launch(int* flag, void* stream) {
  wait<<<1, 1, 0, (cudaStream_t)stream>>>(flag);
  return cudaGetLastError();
}
"""
LIBRARY = ctypes.CDLL(
    load_inline(
        "kbench_selftest_never_ends",
        cpp_sources=[],
        cuda_sources=[SOURCE],
        no_implicit_headers=True,
        is_python_module=False,
    )
)
LIBRARY.launch.argtypes = (ctypes.c_void_p, ctypes.c_void_p)


class ModelNew(nn.Module):
    def forward(self, x):
        flag = torch.zeros(1, dtype=torch.int32, device=x.device)
        LIBRARY.launch(flag.data_ptr(), torch.cuda.current_stream().cuda_stream)
        return torch.relu(x)
