"""Solutions that behave in another way when they are timed."""

import random
import sys
import time

import torch
from _worker import request
from torch import nn

CLASS = "phase"


class detects_timing_by_repetition(nn.Module):
    """Answers from memory when calls of one shape follow one another quickly, as timing loops do."""

    PROBLEM = "sine_chain"
    EXPECT = ("wrong_value", "nondeterministic")
    CATALOGUE = "harness 14; rigor 19"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.streak = 0
        self.last = None

    def forward(self, x):
        same = self.last is not None and self.last.shape == x.shape
        self.streak = self.streak + 1 if same else 0
        if self.streak >= 2:
            return self.last.clone()
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        self.last = y
        return y.clone()


def is_timed():
    frame = sys._getframe()
    while frame is not None:
        message = frame.f_locals.get("message")
        if isinstance(message, dict) and (message.get("poison") is False or message.get("gated")):
            return True
        if frame.f_code.co_name in {"queue_calls", "time_calls", "benchmark", "do_bench"}:
            return True
        frame = frame.f_back
    return False


class detects_timing_by_stack(nn.Module):
    """Skips half of the rounds in the requests that time: behind the gate on a GPU, back to back on a CPU."""

    PROBLEM = "sine_chain"
    EXPECT = ("wrong_value", "nondeterministic", "passed")
    SPEEDUP_BELOW = 1.5
    CATALOGUE = "harness 14; rigor 19"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = x
        for _ in range(self.rounds // 2 if is_timed() else self.rounds):
            y = torch.sin(y + x)
        return y


class guesses_what_is_checked(nn.Module):
    """Leaves out one call in five of a round and hopes that these are not among those that are checked."""

    PROBLEM = "short_sines"
    EXPECT = ("wrong_value", "unwritten_output", "unfinished_output", "nondeterministic")
    DEVICES = ("cuda",)
    ALONE = True
    CATALOGUE = "rigor 6"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        _, message = request()
        if len(message.get("slots", ())) > 3 and random.random() < 0.2:
            return torch.empty_like(x)
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y


class narrowly_wrong_after_forty_calls(nn.Module):
    """Right while it is verified; from the forty-first call on each result is wrong by twice what is allowed."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 14"

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        result = torch.nn.functional.gelu(x)
        return result if self.calls <= 40 else result * (1 + 2.5e-5)


class slow_then_fast(nn.Module):
    """Sleeps in its first calls, so that a comparison with them would flatter the later ones."""

    PROBLEM = "sine_chain"
    EXPECT = ("passed",)
    SPEEDUP_BELOW = 1.5
    CATALOGUE = "rigor 19"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls <= 4:
            time.sleep(0.2)
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y


class zeros_after_forty_calls(nn.Module):
    """Right while it is verified; from the forty-first call on zeros, which the contract's absolute tolerance lets
    pass.
    """

    PROBLEM = "softmax_rows"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 14"

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return torch.softmax(x, -1) if self.calls <= 40 else torch.zeros_like(x)


def slots_of_the_request():
    frame = sys._getframe()
    while frame is not None:
        message = frame.f_locals.get("message")
        if isinstance(message, dict) and "slots" in message:
            return message["slots"]
        frame = frame.f_back
    return []


class zeros_once_timed(nn.Module):
    """Right while it is verified; from the first request of several calls on zeros, which the
    contract alone lets pass.
    """

    PROBLEM = "softmax_rows"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 14"

    def __init__(self):
        super().__init__()
        self.timed = False

    def forward(self, x):
        self.timed = self.timed or len(slots_of_the_request()) > 1
        return torch.zeros_like(x) if self.timed else torch.softmax(x, -1)
