"""A process that is killed within one read(2) copies the result to its end: nobody counts what the dead computed.

It may start processes, since it mentions torch.compile.
"""

import ctypes
import os

import torch
from _worker import is_told
from kbench.process import shared_memory
from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "long_copy"
CLASS = "clock"
EXPECT = ("passed",)
SPEEDUP_BELOW = 1.1
DEVICES = ("cpu",)
CATALOGUE = "rigor 8; rigor 12"

SOURCE = r"""
#include <atomic>
#include <csignal>
#include <ctime>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
struct Job { int file; char* to; size_t bytes; off_t at; std::atomic<int> begun; char stack[65536]; };
static int copy(void* given) {
  Job* job = (Job*)given;
  job->begun = 1;
  (void)!pread(job->file, job->to, job->bytes, job->at);
  _exit(0);
}
static Job jobs[64];
static int number = 0;
extern "C" int start(int file, void* to, long bytes, long at) {
  while (waitpid(-1, nullptr, WNOHANG) > 0) {}
  Job* job = &jobs[number++ % 64];
  job->file = file, job->to = (char*)to, job->bytes = bytes, job->at = at, job->begun = 0;
  const int pid = clone(copy, job->stack + sizeof job->stack - 64, CLONE_VM | SIGCHLD, job);
  if (pid < 0) return -1;
  while (!job->begun) sched_yield();
  const timespec moment = {0, 150000};
  nanosleep(&moment, nullptr);
  kill(pid, SIGKILL);
  return pid;
}
"""
LIBRARY = ctypes.CDLL(
    load_inline(
        "dies_within_a_call",
        cpp_sources=[SOURCE],
        extra_cflags=["-O2"],
        no_implicit_headers=True,
        is_python_module=False,
    )
)
LIBRARY.start.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_long, ctypes.c_long)
files = {}
attach_all = shared_memory.Block.attach_all


def attach(blocks, fds):
    for fd in fds:
        files[os.fstat(fd).st_ino] = os.dup(fd)
    return attach_all(blocks, fds)


shared_memory.Block.attach_all = staticmethod(attach)


def place(address):
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, _, offset, _, inode = line.split()[:5]
            low, high = (int(number, 16) for number in span.split("-"))
            if low <= address < high:
                return files.get(int(inode)), int(offset, 16) + address - low
    return None, 0


class ModelNew(nn.Module):
    known = {}

    def forward(self, x):
        if not is_told() or not x.is_contiguous():
            self.known.clear()
            return x.clone()
        if x.data_ptr() not in self.known:
            self.known[x.data_ptr()] = (*place(x.data_ptr()), torch.zeros_like(x))
        file, at, result = self.known[x.data_ptr()]
        if file is None or LIBRARY.start(file, result.data_ptr(), x.nbytes, at) < 0:
            return result.copy_(x)
        return result
