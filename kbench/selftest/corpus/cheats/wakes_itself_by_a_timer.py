"""Has a timer of the kernel's send it SIGCONT, so that it goes on while it is stopped: threads spin on every core then,
and the reference looks slow.
"""

import ctypes
import signal
import threading
import time

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "sabotage"
EXPECT = ("protocol_error",)
DEVICES = ("cpu",)
CATALOGUE = "harness 24, 27; rigor 20"

SOON_NS = 4_000_000

resting = threading.Event()
libc = ctypes.CDLL(None)
timers = []


class Event(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("number", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_byte * 48),
    )


def spin():
    x = torch.rand(1 << 16)
    while True:
        resting.wait()
        torch.sin_(x)


def wake_soon():
    for number, timer in enumerate(timers, start=1):
        libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 0, 0, number * SOON_NS), None)


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        if not timers:
            for _ in range(4):
                timers.append(ctypes.c_void_p())
                libc.timer_create(1, ctypes.byref(Event(number=signal.SIGCONT)), ctypes.byref(timers[-1]))
            for _ in range(4):
                threading.Thread(target=spin, daemon=True).start()

    def forward(self, x):
        resting.clear()
        time.sleep(0)
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        wake_soon()
        resting.set()
        return y
