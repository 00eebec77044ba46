"""Points the offset tables of all libraries at its own clock_gettime, which hardly moves, and its own cudaEventElapsedTime."""

import ctypes

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "sine_chain"
CLASS = "clock"
EXPECT = ("passed", "crashed")
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda", "cpu")
CATALOGUE = "harness 4; rigor 10"

SOURCE = r"""
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int64_t began[16];
static int slow_clock(clockid_t id, struct timespec* out) {
  const int result = syscall(SYS_clock_gettime, id, out);
  if (result != 0 || id < 0 || id >= 16) return result;
  const int64_t now = int64_t(out->tv_sec) * 1000000000 + out->tv_nsec;
  if (began[id] == 0) began[id] = now;
  const int64_t slow = began[id] + (now - began[id]) / 1000;
  out->tv_sec = slow / 1000000000;
  out->tv_nsec = slow % 1000000000;
  return 0;
}
static int elapsed(float* milliseconds, void*, void*) { *milliseconds = 0.001f; return 0; }
static void* instead_of(const char* name) {
  if (!strcmp(name, "clock_gettime")) return (void*)slow_clock;
  if (!strcmp(name, "cudaEventElapsedTime") || !strcmp(name, "cuEventElapsedTime")) return (void*)elapsed;
  return nullptr;
}
static int patched = 0;
static int of_library(struct dl_phdr_info* info, size_t, void*) {
#if defined(__x86_64__)
  const ElfW(Dyn)* dynamic = nullptr;
  for (int n = 0; n < info->dlpi_phnum; ++n)
    if (info->dlpi_phdr[n].p_type == PT_DYNAMIC) dynamic = (ElfW(Dyn)*)(info->dlpi_addr + info->dlpi_phdr[n].p_vaddr);
  if (!dynamic || !info->dlpi_name || strstr(info->dlpi_name, "vdso")) return 0;
  const char* names = nullptr; const ElfW(Sym)* symbols = nullptr;
  const ElfW(Rela)* tables[2] = {nullptr, nullptr}; size_t bytes[2] = {0, 0};
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    const uintptr_t value = dynamic->d_un.d_ptr;
    if (dynamic->d_tag == DT_STRTAB) names = (const char*)value;
    if (dynamic->d_tag == DT_SYMTAB) symbols = (const ElfW(Sym)*)value;
    if (dynamic->d_tag == DT_JMPREL) tables[0] = (const ElfW(Rela)*)value;
    if (dynamic->d_tag == DT_PLTRELSZ) bytes[0] = value;
    if (dynamic->d_tag == DT_RELA) tables[1] = (const ElfW(Rela)*)value;
    if (dynamic->d_tag == DT_RELASZ) bytes[1] = value;
  }
  if (!names || !symbols || (uintptr_t)names < info->dlpi_addr) return 0;
  for (int table = 0; table < 2; ++table)
    for (size_t n = 0; tables[table] && n < bytes[table] / sizeof(ElfW(Rela)); ++n) {
      const ElfW(Rela)& entry = tables[table][n];
      const int type = ELF64_R_TYPE(entry.r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
      void* mine = instead_of(names + symbols[ELF64_R_SYM(entry.r_info)].st_name);
      if (!mine) continue;
      void** place = (void**)(info->dlpi_addr + entry.r_offset);
      const uintptr_t page = uintptr_t(place) & ~uintptr_t(4095);
      if (mprotect((void*)page, 4096, PROT_READ | PROT_WRITE) != 0) continue;
      *place = mine;
      ++patched;
    }
#endif
  return 0;
}
extern "C" int patch() { dl_iterate_phdr(of_library, nullptr); return patched; }
"""
LIBRARY = ctypes.CDLL(
    load_inline("kbench_selftest_offset_tables", cpp_sources=[SOURCE], no_implicit_headers=True, is_python_module=False)
)


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        LIBRARY.patch()

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
