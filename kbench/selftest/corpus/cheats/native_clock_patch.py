"""Rewrites the first bytes of libc's clock_gettime, so that every clock of the process runs at a quarter speed."""

import ctypes

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "sine_chain"
CLASS = "clock"
EXPECT = ("passed", "crashed")
SPEEDUP_BELOW = 1.5
DEVICES = ("cpu",)
CATALOGUE = "harness 4; rigor 10"

SOURCE = r"""
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int64_t start[16];
static int slow_clock(clockid_t id, struct timespec* out) {
#if defined(__x86_64__)
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "0"(SYS_clock_gettime), "D"(id), "S"(out) : "rcx", "r11", "memory");
  if (result != 0 || id < 0 || id >= 16) return int(result);
  const int64_t now = int64_t(out->tv_sec) * 1000000000 + out->tv_nsec;
  if (start[id] == 0) start[id] = now;
  const int64_t slow = start[id] + (now - start[id]) / 4;
  out->tv_sec = slow / 1000000000;
  out->tv_nsec = slow % 1000000000;
#endif
  return 0;
}
extern "C" int slow_down() {
#if defined(__x86_64__)
  unsigned char* entry = (unsigned char*)dlsym(RTLD_DEFAULT, "clock_gettime");
  const uintptr_t page = uintptr_t(entry) & ~uintptr_t(4095);
  if (mprotect((void*)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return 1;
  unsigned char jump[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
  void* target = (void*)slow_clock;
  memcpy(jump + 2, &target, 8);
  memcpy(entry, jump, 12);
#endif
  return 0;
}
"""
LIBRARY = ctypes.CDLL(
    load_inline(
        "kbench_selftest_native_clock",
        cpp_sources=[SOURCE],
        extra_ldflags=["-ldl"],
        no_implicit_headers=True,
        is_python_module=False,
    )
)


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        LIBRARY.slow_down()

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
