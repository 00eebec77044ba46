"""A pool of its own with a thread that spins while it waits for work, as some runtimes' threads do."""

import ctypes

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "long_shift"
CLASS = "threads"
DEVICES = ("cpu",)

SOURCE = r"""
#include <algorithm>
#include <atomic>
#include <thread>
static const float* in;
static float* out;
static long count;
static std::atomic<long> next{0}, busy{0};
static std::atomic<int> turn{0};
static void work() {
  const long chunk = 4096;
  for (long c; (c = next++) * chunk < count;)
    for (long i = c * chunk; i < std::min(count, (c + 1) * chunk); ++i) out[i] = in[i] + 1;
}
extern "C" void begin() {
  std::thread([] {
    for (int seen = 0;;) {
      while (turn == seen) {}
      seen = turn;
      work();
      busy--;
    }
  }).detach();
}
extern "C" void run(const float* x, float* y, long values) {
  in = x, out = y, count = values, busy = 1, next = 0;
  turn++;
  work();
  while (busy) {}
}
"""
LIBRARY = ctypes.CDLL(
    load_inline(
        "pool_that_spins",
        cpp_sources=[SOURCE],
        extra_cflags=["-O3"],
        no_implicit_headers=True,
        is_python_module=False,
    )
)
LIBRARY.run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long)


class ModelNew(nn.Module):
    begun = False

    def forward(self, x):
        if not ModelNew.begun:
            ModelNew.begun = True
            LIBRARY.begin()
        x = x.contiguous()
        y = torch.empty_like(x)
        LIBRARY.run(x.data_ptr(), y.data_ptr(), x.numel())
        return y
