"""Memory without access rights: the fault handler computes when the result is first read."""

import ctypes

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "sine_chain"
CLASS = "deferred"
EXPECT = ("wrong_value", "unwritten_output", "crashed", "passed")
SPEEDUP_BELOW = 1.1
DEVICES = ("cpu",)
CATALOGUE = "harness 3; rigor 9"

SOURCE = r"""
#include <atomic>
#include <cmath>
#include <csignal>
#include <sys/mman.h>
static const float* source; static char* pages; static long count, total, rounds_wanted;
static std::atomic<int> state{0};  // 0: nothing promised, 1: promised, 2: being computed
static void on_fault(int, siginfo_t* info, void*) {
  char* at = (char*)info->si_addr;
  if (at < pages || at >= pages + total) { signal(SIGSEGV, SIG_DFL); return; }
  int due = 1;
  if (!state.compare_exchange_strong(due, 2)) { while (state == 2) {} return; }
  float* ready = (float*)mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (long i = 0; i < count; ++i) ready[i] = source[i];
  for (long r = 0; r < rounds_wanted; ++r)
    for (long i = 0; i < count; ++i) ready[i] = std::sin(ready[i] + source[i]);
  mremap(ready, total, total, MREMAP_MAYMOVE | MREMAP_FIXED, pages);
  state = 0;
}
extern "C" void* promise(const float* x, long n, long rounds) {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  source = x; count = n; rounds_wanted = rounds;
  total = (n * 4 + 4095) / 4096 * 4096;
  pages = (char*)mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  state = 1;
  return pages;
}
"""
LIBRARY = ctypes.CDLL(
    load_inline(
        "kbench_selftest_lazy_pages",
        cpp_sources=[SOURCE],
        extra_cflags=["-O3", "-ffast-math", "-march=native"],
        no_implicit_headers=True,
        is_python_module=False,
    )
)
LIBRARY.promise.argtypes = (ctypes.c_void_p, ctypes.c_long, ctypes.c_long)
LIBRARY.promise.restype = ctypes.c_void_p


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        x = x.contiguous()
        at = LIBRARY.promise(x.data_ptr(), x.numel(), self.rounds)
        return torch.frombuffer((ctypes.c_float * x.numel()).from_address(at), dtype=torch.float32)
