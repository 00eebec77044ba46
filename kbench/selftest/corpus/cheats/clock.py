"""Solutions that make the measured time shorter than the work."""

import random
import sys
import time

import torch
from _worker import forge, request, worker_with_queue
from torch import nn

CLASS = "clock"


class announces_late_for_short_rounds(nn.Module):
    """Is late with every round of several calls, so that rounds have one call each, and claims half of its time."""

    PROBLEM = "short_sines"
    EXPECT = ("passed",)
    SPEEDUP_BELOW = 1.03
    DEVICES = ("cuda",)
    ALONE = True
    CATALOGUE = "harness 6; rigor 10, 12"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        forge(0.5)

    def forward(self, x):
        _, message = request()
        if message.get("gated") and len(message["slots"]) > 1:
            time.sleep(1.2 / len(message["slots"]))
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y


READY = {}

CLAIM = [None]


def chain(weight, steps, x):
    h = x
    for _ in range(steps):
        h = torch.tanh(weight @ h + x)
    return h


def wrapped(do_call):
    def call(message):
        READY.clear()
        answer = do_call(message)
        if CLAIM[0] is not None:
            answer = {**answer, "event_ns": CLAIM[0], "submit_ns": CLAIM[0]}
        return answer

    return call


class batches_the_attested_calls(nn.Module):
    """Computes all calls of a request as one product, whose factors are read once, and claims what that takes."""

    PROBLEM = "recurrence"
    EXPECT = ("passed",)
    SPEEDUP_BELOW = 1.5
    DEVICES = ("cpu",)
    CATALOGUE = "harness 13"
    ALONE = True

    def __init__(self, width, steps):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / width**0.5)
        self.steps = steps

    def forward(self, x):
        key = x.data_ptr()
        if key in READY:
            return READY.pop(key)
        frame = sys._getframe()
        owner = slots = None
        while frame is not None:
            candidate, message = frame.f_locals.get("self"), frame.f_locals.get("message")
            if hasattr(candidate, "do_call"):
                owner = candidate
            if isinstance(message, dict) and isinstance(message.get("slots"), list):
                slots = message["slots"]
            frame = frame.f_back
        if owner is not None and "do_call" not in vars(owner):
            owner.do_call = wrapped(owner.do_call)
        if owner is None or not slots:
            return chain(self.weight, self.steps, x)
        if CLAIM[0] is None and len(slots) > 1:
            some = torch.randn(len(x), 16)
            times = []
            for _ in range(5):
                began = time.perf_counter_ns()
                chain(self.weight, self.steps, some)
                times.append(time.perf_counter_ns() - began)
            CLAIM[0] = int(1.15 * sorted(times)[2] / 16)
        inputs = [owner._inputs[slot][0] for slot in slots]
        if len(inputs) > 1 and all(i.shape == x.shape for i in inputs):
            results = chain(self.weight, self.steps, torch.stack(inputs, 1))
            for n, i in enumerate(inputs):
                READY[i.data_ptr()] = results[:, n].clone()
            return READY.pop(key)
        return chain(self.weight, self.steps, x)


class batches_the_gated_calls(nn.Module):
    """All inputs of a round are bare once the gate is open: computes its calls as one product, whose factors are read
    once.
    """

    PROBLEM = "recurrence"
    EXPECT = ("passed",)
    SPEEDUP_BELOW = 1.5
    DEVICES = ("cuda",)
    ALONE = True
    CATALOGUE = "harness 13"

    def __init__(self, width, steps):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / width**0.5)
        self.steps = steps
        self.ready = {}

    def forward(self, x):
        owner, message = request()
        slots = message.get("slots", [])
        if len(slots) < 2:
            return chain(self.weight, self.steps, x)
        inputs = [owner._inputs[slot][0] for slot in slots]
        if x.data_ptr() == inputs[0].data_ptr():
            results = chain(self.weight, self.steps, torch.stack(inputs, 1))
            self.ready = {i.data_ptr(): results[:, n].clone() for n, i in enumerate(inputs)}
        return self.ready.pop(x.data_ptr())


def sized_small(queue):
    honest, rounds = queue.read, [0]

    def read(calls):
        honest(calls)
        rounds[0] += calls > 0
        queue.event_ns = 1e6 if rounds[0] <= 16 else 1.0

    queue.read = read


class claims_long_calls_at_first(nn.Module):
    """Claims a millisecond a call while rounds are sized, so that they have one call each, and then next to nothing."""

    PROBLEM = "short_sines"
    EXPECT = ("passed",)
    SPEEDUP_BELOW = 1.03
    DEVICES = ("cuda",)
    ALONE = True
    CATALOGUE = "harness 6; rigor 10, 12"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        owner = worker_with_queue()
        if owner is not None and owner._queue is not None and "read" not in vars(owner._queue):
            sized_small(owner._queue)
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y


class claims_within_the_interval(nn.Module):
    """Takes four percent off: about what the judge's clock allows where calls are short."""

    PROBLEM = "short_sines"
    EXPECT = ("passed",)
    SPEEDUP_BELOW = 1.03
    DEVICES = ("cuda",)
    ALONE = True
    CATALOGUE = "harness 6; rigor 10"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        forge(0.96)

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y


def in_turn(queue):
    honest, rounds = queue.read, [0]

    def read(calls):
        honest(calls)
        rounds[0] += calls > 0
        queue.event_ns *= (0.2, 1.8)[rounds[0] % 2]

    queue.read = read


class claims_high_and_low_by_events(nn.Module):
    """Claims much and little in turn: the median of its claims is true, and that of their ratios to the reference is
    not.
    """

    PROBLEM = "sine_chain"
    EXPECT = ("passed",)
    SPEEDUP_BELOW = 1.03
    DEVICES = ("cuda",)
    CATALOGUE = "harness 6; rigor 12"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        owner = worker_with_queue()
        if owner is not None and owner._queue is not None and "read" not in vars(owner._queue):
            in_turn(owner._queue)
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y


class forges_driver_table(nn.Module):
    """Replaces cuEventElapsedTime in the table of driver functions that the worker keeps, found by the collector."""

    PROBLEM = "sine_chain"
    EXPECT = ("passed",)
    SPEEDUP_BELOW = 1.03
    DEVICES = ("cuda",)
    CATALOGUE = "harness 4; rigor 10"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        forge(0.1)

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y


def cheaper(queue):
    honest = queue.read

    def read(calls):
        honest(calls)
        queue.event_ns /= 50

    queue.read = read


class forges_the_queue(nn.Module):
    """Wraps the worker's end of the gate, so that what it has read of events is a fiftieth."""

    PROBLEM = "sine_chain"
    EXPECT = ("passed",)
    SPEEDUP_BELOW = 1.03
    DEVICES = ("cuda",)
    CATALOGUE = "harness 4; rigor 10"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        owner = worker_with_queue()
        if owner is not None and owner._queue is not None and "read" not in vars(owner._queue):
            cheaper(owner._queue)
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y


LENGTH_S = 0.1


def padded(do_call):
    def call(message):
        started = time.monotonic()
        answer = do_call(message)
        if len(message["slots"]) <= 1:
            time.sleep(max(0.0, started + LENGTH_S - time.monotonic()))
        return {**answer, "event_ns": answer["event_ns"] // 10, "submit_ns": answer["submit_ns"] // 10}

    return call


class pads_short_requests(nn.Module):
    """Makes short requests take as long as long ones, so that a call seems to add little time, and claims a tenth."""

    PROBLEM = "sine_chain"
    EXPECT = ("passed",)
    SPEEDUP_BELOW = 1.1
    DEVICES = ("cpu",)
    CATALOGUE = "harness 4; rigor 10, 12"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        frame = sys._getframe()
        while frame is not None:
            owner = frame.f_locals.get("self")
            if hasattr(owner, "do_call") and "do_call" not in vars(owner):
                owner.do_call = padded(owner.do_call)
            frame = frame.f_back
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y


class raises_done_in_most_rounds(nn.Module):
    """Has the device raise `done` early in most rounds, each time at another place: how late
    looks come varies widely.
    """

    PROBLEM = "sine_chain"
    EXPECT = ("unfinished_output", "passed")
    SPEEDUP_BELOW = 1.03
    DEVICES = ("cuda",)
    CATALOGUE = "harness 4"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.number, self.raised_before = None, None
        forge(0.6)

    def place_in(self, message):
        if not message.get("gated"):
            return None
        if message["number"] != self.number:
            self.number = message["number"]
            self.raised_before = random.randrange(self.rounds) if random.random() < 0.6 else None
        return self.raised_before

    def forward(self, x):
        owner, message = request()
        place = self.place_in(message)
        y = x
        for n in range(self.rounds):
            if n == place:
                queue = owner._queue
                queue._driver.write_value(queue._stream().cuda_stream, queue._address + 4 * 16, message["number"])
            y = torch.sin(y + x)
        return y


class raises_done_on_the_device(nn.Module):
    """Has the device raise `done` before the last of its rounds of work."""

    PROBLEM = "sine_chain"
    EXPECT = ("unfinished_output", "passed")
    SPEEDUP_BELOW = 1.03
    DEVICES = ("cuda",)
    CATALOGUE = "harness 4; rigor 10, 12"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        forge(1 - 2 / rounds)

    def forward(self, x):
        owner, message = request()
        y = x
        for n in range(self.rounds):
            if message.get("gated") and n == self.rounds - 2:
                queue = owner._queue
                queue._driver.write_value(queue._stream().cuda_stream, queue._address + 4 * 16, message["number"])
            y = torch.sin(y + x)
        return y


class writes_the_judges_slots(nn.Module):
    """Returns one buffer so that results are copied, and has computed them in the judge's memory: the
    copy is left out.
    """

    PROBLEM = "short_sines"
    EXPECT = ("passed", "unfinished_output", "unwritten_output", "wrong_value")
    SPEEDUP_BELOW = 1.03
    DEVICES = ("cuda",)
    ALONE = True
    CATALOGUE = "rigor 12"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.buffer = None

    def forward(self, x):
        owner, message = request()
        if self.buffer is None or self.buffer.shape != x.shape:
            self.buffer = torch.empty_like(x)
        target, self.direct = self.buffer, bool(message.get("deliver"))
        if self.direct:
            slot = next(n for n, given in owner._inputs.items() if given[0].data_ptr() == x.data_ptr())
            target = owner._outputs[slot][0]
            self.leave_out_the_copy(type(owner).do_round.__globals__)
        y = x
        for n in range(self.rounds):
            y = torch.sin(y + x) if n < self.rounds - 1 else torch.sin(y + x, out=target)
        return self.buffer

    def leave_out_the_copy(self, names):
        honest = names["deliver"]
        if not hasattr(honest, "__wrapped__"):

            def deliver(output, targets, arguments):
                return honest(output, () if self.direct else targets, arguments)

            deliver.__wrapped__ = honest
            names["deliver"] = deliver
