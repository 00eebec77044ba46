"""A kernel on a stream of its own spins until the inputs change, and the work follows it, not the gate."""

import ctypes

import torch
from _worker import request
from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "sine_chain"
CLASS = "deferred"
EXPECT = ("passed", "unfinished_output", "wrong_value", "nondeterministic")
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda",)
CATALOGUE = "harness 2"

SOURCE = r"""
__global__ void watch(const volatile unsigned* first, const volatile unsigned* last) {
  const unsigned a = *first, b = *last;
  const long long began = clock64();
  while ((*first == a || *last == b) && clock64() - began < 1500000000ll) {}
}
extern "C" int launch(void* first, void* last, void* stream) {
  watch<<<1, 1, 0, (cudaStream_t)stream>>>((const unsigned*)first, (const unsigned*)last);
  return cudaGetLastError();
}
"""
LIBRARY = ctypes.CDLL(
    load_inline(
        "kbench_selftest_poller",
        cpp_sources=[],
        cuda_sources=[SOURCE],
        no_implicit_headers=True,
        is_python_module=False,
    )
)
LIBRARY.launch.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.side = torch.cuda.Stream()

    def chain(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y

    def forward(self, x):
        _, message = request()
        if not message.get("gated"):
            return self.chain(x)
        current = torch.cuda.current_stream()
        with torch.cuda.stream(self.side):
            LIBRARY.launch(x.data_ptr(), x.data_ptr() + 4 * (x.numel() - 1), self.side.cuda_stream)
            y = self.chain(x)
        current.wait_stream(self.side)
        y.record_stream(current)
        return y
