"""Memory without access rights: the fault handler computes when the result is first read."""

import ctypes

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "sine_chain"
CLASS = "deferred"
EXPECT = ("timing_unattested", "wrong_value", "unwritten_output", "crashed")
DEVICES = ("cpu",)
CATALOGUE = "harness 3; rigor 9"

SOURCE = r"""
#include <cmath>
#include <csignal>
#include <sys/mman.h>
static const float* source; static float* pages; static long count, total, rounds_wanted; static bool due;
static void on_fault(int, siginfo_t* info, void*) {
  char* at = (char*)info->si_addr;
  if (!due || at < (char*)pages || at >= (char*)pages + total) { signal(SIGSEGV, SIG_DFL); return; }
  mprotect(pages, total, PROT_READ | PROT_WRITE);
  due = false;
  for (long i = 0; i < count; ++i) {
    float z = source[i];
    for (long r = 0; r < rounds_wanted; ++r) z = std::sin(z + source[i]);
    pages[i] = z;
  }
}
extern "C" void* promise(const float* x, long n, long rounds) {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  source = x; count = n; rounds_wanted = rounds;
  total = (n * 4 + 4095) / 4096 * 4096;
  pages = (float*)mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  due = true;
  return pages;
}
"""
LIBRARY = ctypes.CDLL(
    load_inline(
        "kbench_selftest_lazy_pages",
        cpp_sources=[SOURCE],
        extra_cflags=["-O3"],
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
