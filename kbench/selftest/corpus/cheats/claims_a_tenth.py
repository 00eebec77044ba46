"""Finds the code that reports its time, by walking the stack, and has it report a tenth."""

import dataclasses
import sys

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "clock"
EXPECT = ("passed",)
SPEEDUP_BELOW = 1.1
CATALOGUE = "harness 4; rigor 10, 12"

wrapped = set()


def wrap_timers():
    frame = sys._getframe()
    while frame is not None:
        for value in [*frame.f_locals.values(), getattr(frame.f_locals.get("self"), "_queue", None)]:
            measure = getattr(type(value), "measure", None)
            if callable(measure) and type(value) not in wrapped:
                wrapped.add(type(value))
                type(value).measure = cheaper(measure)
            read = getattr(type(value), "read", None)
            if callable(read) and hasattr(value, "event_ns") and type(value) not in wrapped:
                wrapped.add(type(value))
                type(value).read = cheaper_round(read)
        frame = frame.f_back


def cheaper(measure):
    def claimed(*args, **kwargs):
        result = measure(*args, **kwargs)
        tenth = {f.name: getattr(result, f.name) // 10 for f in dataclasses.fields(result) if f.name.endswith("_ns")}
        return dataclasses.replace(result, **tenth)

    return claimed


def cheaper_round(read):
    def claimed(queue, calls):
        read(queue, calls)
        queue.event_ns /= 10

    return claimed


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        wrap_timers()
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
