"""A source whose compilation takes for ever: a template that instantiates itself exponentially."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
template <int N, int K> struct Slow {
  static constexpr long value = Slow<N - 1, 2 * K>::value + Slow<N - 1, 2 * K + 1>::value;
};
template <int K> struct Slow<0, K> { static constexpr long value = K; };
extern "C" long answer() { return Slow<24, 0>::value; }
"""
LIBRARY = load_inline(
    "kbench_test_build_never_ends", cpp_sources=[SOURCE], no_implicit_headers=True, is_python_module=False
)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
