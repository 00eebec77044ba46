"""CUDA source with an undeclared name: nvcc, where there is one, says which."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__global__ void kernel(const float* x, float* y) { y[0] = undeclared_in_cuda(x[0]); }
"""
LIBRARY = load_inline(
    "kbench_test_cuda_does_not_compile",
    cpp_sources=[],
    cuda_sources=[SOURCE],
    no_implicit_headers=True,
    is_python_module=False,
)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
