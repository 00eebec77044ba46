"""Processes that fork and end all the time, faster than they can be listed, work on while the solution is stopped."""

import mmap
import os
import subprocess
import time
from pathlib import Path

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "sabotage"
EXPECT = ("passed", "protocol_error", "call_timeout")
SPEEDUP_BELOW = 1.3
DEVICES = ("cpu",)
CATALOGUE = "harness 24, 27; rigor 20"

SOURCE = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
int main(int n, char **a) {
  signal(SIGCHLD, SIG_IGN);
  struct page { volatile long flag; volatile long since; } *page =
      mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open(a[1], O_RDWR), 0);
  time_t end = time(0) + 60;
  struct timespec nap = {0, 50000}, now;
  while (time(0) < end) {
    if (!page->flag) { nanosleep(&nap, 0); continue; }
    clock_gettime(CLOCK_MONOTONIC, &now);
    long us = now.tv_sec * 1000000L + now.tv_nsec / 1000 - page->since;
    if (us < 6000) { if (fork()) _exit(0); continue; }
    int k = 0; pid_t kids[3];
    for (; k < 3; k++) { kids[k] = fork(); if (!kids[k]) { while (page->flag && time(0) < end) ; _exit(0); } }
    while (page->flag && time(0) < end) ;
  }
  return 0;
}
"""
home = Path(os.environ["HOME"])
binary = home / "chain"
if not binary.exists():
    (home / "chain.c").write_text(SOURCE)
    subprocess.run(["cc", "-O2", "-o", str(binary), str(home / "chain.c")], check=True)
place = Path(os.environ["TMPDIR"]) / "flag"
place.write_bytes(b"\0" * 4096)
descriptor = os.open(place, os.O_RDWR)
flag = mmap.mmap(descriptor, 4096)


class ModelNew(nn.Module):
    """It may start programs, since it mentions torch.compile."""

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.calls = 0

    def forward(self, x):
        flag[0:8] = bytes(8)
        self.calls += 1
        if self.calls == 5:
            subprocess.Popen(["/lib64/ld-linux-x86-64.so.2", str(binary), str(place)])
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        flag[8:16] = (time.monotonic_ns() // 1000).to_bytes(8, "little")
        flag[0:8] = (1).to_bytes(8, "little")
        return y
