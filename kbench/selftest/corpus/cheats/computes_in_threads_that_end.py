"""Goes on while the reference is called, and stops again, both by timers of the kernel's. All that computes then are
threads which begin and end meanwhile, so that those that are there before and after have run for 0.1 ms: the reference
took 1.4 times as long, unseen.
"""

import ctypes
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

PROBLEM = "long_running_sum"
CLASS = "sabotage"
EXPECT = ("protocol_error", "passed")
SPEEDUP_BELOW = 1.1
DEVICES = ("cpu",)
CATALOGUE = "harness 24, 27; rigor 20"
ALONE = True

SOURCE = r"""
#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define STACK 65536
#define AS_A_THREAD (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)

static int file;
static timer_t go_on, stop;
static double ticks_per_ns;
static volatile int64_t spin_ns;
static char *stacks[THREADS];

static void end(int signal) {
  for (;;) syscall(SYS_exit, 0);
}

static int spin(void *until) {
  while (__builtin_ia32_rdtsc() < (uint64_t)until);
  end(0);
  return 0;
}

static int first(void *until) {
  for (int i = 1; i < THREADS; i++) clone(spin, stacks[i], AS_A_THREAD, until);
  return spin(until);
}

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}

static struct itimerspec in(int64_t ns) {
  return (struct itimerspec){{0, 0}, {ns / 1000000000L, ns % 1000000000L}};
}

void end_thread(int thread) {
  struct sigaction action = {.sa_handler = end};
  sigaction(SIGUSR1, &action, 0);
  syscall(SYS_tgkill, getpid(), thread, SIGUSR1);
}

void prepare(void) {
  int64_t began = now();
  uint64_t ticks = __builtin_ia32_rdtsc();
  while (now() - began < 20000000);
  ticks_per_ns = (double)(__builtin_ia32_rdtsc() - ticks) / (now() - began);
  file = timerfd_create(CLOCK_MONOTONIC, 0);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};
  timer_create(CLOCK_MONOTONIC, &event, &go_on);
  event.sigev_signo = SIGSTOP;
  timer_create(CLOCK_MONOTONIC, &event, &stop);
  for (int i = 0; i < THREADS; i++)
    stacks[i] = (char *)mmap(0, STACK, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) + STACK - 64;
}

void arm(int64_t from, int64_t to) {
  spin_ns = to - from - 8000000;
  struct itimerspec begin = in(from), soon = in(from + 20000), last = in(to);
  timer_settime(stop, 0, &last, 0);
  timerfd_settime(file, 0, &begin, 0);
  timer_settime(go_on, 0, &soon, 0);
}

void wait_for(int socket) {
  struct pollfd on[2] = {{file, POLLIN, 0}, {socket, POLLIN, 0}};
  for (;;) {
    on[0].revents = on[1].revents = 0;
    if (poll(on, 2, -1) < 0) continue;
    if (on[1].revents) return;
    uint64_t fired;
    clone(first, stacks[0], AS_A_THREAD, (void *)(__builtin_ia32_rdtsc() + (uint64_t)(spin_ns * ticks_per_ns)));
    if (read(file, &fired, 8) == 8) on[0].fd = -1;
  }
}
"""


def build():
    folder = Path(os.environ.get("TORCH_EXTENSIONS_DIR", tempfile.gettempdir()))
    library = folder / f"threads_that_end_{hashlib.sha256(SOURCE.encode()).hexdigest()[:16]}.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        source = library.with_suffix(".c")
        source.write_text(SOURCE)
        command = ["gcc", "-O2", "-fno-stack-protector", "-shared", "-fPIC", str(source), "-o", str(library)]
        subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


LIBRARY = build()
LIBRARY.arm.argtypes = (ctypes.c_int64, ctypes.c_int64)
BOTH_S = 3
"""For so long, it runs through both requests of the reference in a row; then the last one may come."""


def values_of(name):
    """Yield what the callers call by that name."""
    frame = sys._getframe()
    while frame is not None:
        if name in frame.f_locals:
            yield frame.f_locals[name]
        frame = frame.f_back


def is_timed():
    return any(isinstance(message, dict) and message.get("kept") for message in values_of("message"))


class Pauses:
    """Between calls: after a short one, two requests of the reference follow."""

    def __init__(self):
        self.lengths, self.last_ns, self.began_s, self.over = [], time.perf_counter_ns(), None, False
        torch.set_num_threads(1)
        for task in os.listdir("/proc/self/task"):
            if int(task) != os.getpid():
                LIBRARY.end_thread(int(task))
        time.sleep(0.05)
        LIBRARY.prepare()
        self.channel = next(found for found in values_of("self") if hasattr(found, "_channel"))._channel
        self.receive, self.channel.receive = self.channel.receive, self.wait_and_receive

    def wait_and_receive(self, **options):
        if not self.channel._buffer:
            LIBRARY.wait_for(self.channel.fileno())
        message = self.receive(**options)
        self.over |= message["op"] == "switches"
        return message

    def call_ends(self, began_ns):
        self.lengths.append(began_ns - self.last_ns)
        some = sorted(self.lengths[-13:])
        short, long = some[len(some) // 4], some[3 * len(some) // 4]
        known = len(some) > 6 and 2 * short < long
        if known and not self.over and self.lengths[-1] < (short * long) ** 0.5:
            self.began_s = self.began_s or time.perf_counter()
            both = time.perf_counter() - self.began_s < BOTH_S
            LIBRARY.arm(int(0.7 * short), int(0.9 * long if both else 1.5 * short))
        self.last_ns = time.perf_counter_ns()


pauses = None


class ModelNew(nn.Module):
    def forward(self, x):
        global pauses
        began_ns = time.perf_counter_ns()
        if pauses is None and is_timed():
            pauses = Pauses()
        y = torch.cumsum(x, 0)
        if pauses is not None:
            pauses.call_ends(began_ns)
        return y
