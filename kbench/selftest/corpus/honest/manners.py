"""Solutions that inspect or configure the process, and change nothing that counts."""

import gc
import sys
import time
import traceback

import torch
from torch import nn

CLASS = "manners"


class annotates_for_profilers(nn.Module):
    """Marks its steps for a profiler, and runs one of its own around its first call."""

    PROBLEM = "softmax_rows"

    def __init__(self):
        super().__init__()
        self.table = None

    def _compute(self, x):
        with torch.profiler.record_function("shift"):
            x = x - x.amax(dim=-1, keepdim=True)
        with torch.profiler.record_function("normalise"):
            powers = x.exp()
            return powers / powers.sum(dim=-1, keepdim=True)

    def forward(self, x):
        if self.table is None:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
                self._compute(x)
            self.table = profile.key_averages().table(row_limit=5)
        return self._compute(x)


class autotunes(nn.Module):
    """Times two variants with the clock, at its first call for a shape, and keeps the faster one."""

    PROBLEM = "sine_chain"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.chosen = {}

    def _plain(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y

    def _in_place(self, x):
        y = x.clone()
        for _ in range(self.rounds):
            y.add_(x).sin_()
        return y

    def forward(self, x):
        if x.shape not in self.chosen:
            times = {}
            for variant in (self._plain, self._in_place):
                start = time.perf_counter()
                variant(x)
                if x.is_cuda:
                    torch.cuda.synchronize()
                times[variant] = time.perf_counter() - start
            self.chosen[x.shape] = min(times, key=times.get)
        return self.chosen[x.shape](x)


class catches_own_exceptions(nn.Module):
    """Tries a fast path that does not exist here and falls back to one that does."""

    PROBLEM = "gelu"

    def forward(self, x):
        try:
            import a_library_that_nobody_has

            return a_library_that_nobody_has.gelu(x)
        except ImportError:
            return torch.nn.functional.gelu(x)


class looks_at_its_caller(nn.Module):
    """Walks the stack and asks the collector for live objects, for a log of its own: it looks, and takes nothing."""

    PROBLEM = "gelu"

    def __init__(self):
        super().__init__()
        self.callers = set()
        self.tensors = None

    def forward(self, x):
        self.callers.add(sys._getframe(1).f_code.co_name)
        if self.tensors is None:
            self.tensors = sum(isinstance(thing, torch.Tensor) for thing in gc.get_objects())
            self.first_stack = traceback.extract_stack(limit=3)
        return torch.nn.functional.gelu(x)


class uses_own_events(nn.Module):
    """Times itself with events, at its first call, and takes note of the result."""

    PROBLEM = "sine_chain"
    DEVICES = ("cuda",)

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.first_ms = None

    def forward(self, x):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        end.record()
        if self.first_ms is None:
            end.synchronize()
            self.first_ms = start.elapsed_time(end)
        return y
