"""C++ source with an undeclared name, followed by many errors that it causes."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = (
    """
extern "C" int own_gelu(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = undeclared_name(x[i]);
  """
    + "".join(f"another_{i}();\n" for i in range(400))
    + """
  return 0;
}
"""
)
LIBRARY = load_inline(
    "kbench_test_does_not_compile", cpp_sources=[SOURCE], no_implicit_headers=True, is_python_module=False
)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
