"""Solutions that return first and compute later, or compute before they are asked."""

import random
import threading
import time

import torch
from _worker import request, worker_with_buffers
from torch import nn

CLASS = "deferred"


class background_thread(nn.Module):
    """Hands out unwritten memory and lets a Python thread fill it later; the '#' below once hid it from a scanner."""

    PROBLEM = "sine_chain"
    EXPECT = ("wrong_value", "unwritten_output", "nondeterministic", "unfinished_output")
    CATALOGUE = "harness 2, 22; rigor 8"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = torch.empty_like(x)

        def compute():
            z = x
            for _ in range(self.rounds):
                z = torch.sin(z + x)
            y.copy_(z)

        tag = "#"
        threading.Thread(target=compute, daemon=True).start()  # noqa: E702
        return y


class batches_calls(nn.Module):
    """Does nothing for three calls and all four calls' work in the fourth."""

    PROBLEM = "sine_chain"
    EXPECT = ("wrong_value", "unwritten_output", "nondeterministic")
    CATALOGUE = "harness 13; rigor 8"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.owed = []

    def forward(self, x):
        y = torch.empty_like(x)
        self.owed.append((x, y))
        if len(self.owed) == 4:
            for source, target in self.owed:
                z = source
                for _ in range(self.rounds):
                    z = torch.sin(z + source)
                target.copy_(z)
            self.owed = []
        return y


class late_device_writer(nn.Module):
    """Lets the copy into the judge's buffer happen later, on a stream that nobody waits for."""

    PROBLEM = "sine_chain"
    EXPECT = (
        "unwritten_output",
        "wrong_value",
        "unfinished_output",
        "nondeterministic",
        "protocol_error",
        "crashed",
        "exited",
        "raised",
    )
    DEVICES = ("cuda",)
    CATALOGUE = "rigor 8, 12"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.side = torch.cuda.Stream()

    def forward(self, x):
        owner = worker_with_buffers()
        names = type(owner).do_call.__globals__ if owner is not None else {"deliver": None}
        if owner is not None and not hasattr(names["deliver"], "__wrapped__"):
            names["synchronize"] = lambda *args: None

            def deliver(output, targets, arguments):
                described = [["output", "tensor", str(output.dtype), list(output.shape), output.device.type, False]]
                with torch.cuda.stream(self.side):
                    z = arguments[0]
                    for _ in range(self.rounds):
                        z = torch.sin(z + arguments[0])
                    for target in targets:
                        target.copy_(z)
                return described

            deliver.__wrapped__ = names["deliver"]
            names["deliver"] = deliver
        return torch.empty_like(x)


class late_writer(nn.Module):
    """Answers "done" at once; a thread writes the result straight into the judge's buffer while
    it is being verified.
    """

    PROBLEM = "sine_chain"
    EXPECT = (
        "unwritten_output",
        "wrong_value",
        "unfinished_output",
        "nondeterministic",
        "protocol_error",
        "crashed",
        "exited",
    )
    CATALOGUE = "rigor 8, 12"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        owner = worker_with_buffers()
        names = type(owner).do_call.__globals__ if owner is not None else {"deliver": None}
        if owner is not None and not hasattr(names["deliver"], "__wrapped__"):

            def deliver(output, targets, arguments):
                described = [["output", "tensor", str(output.dtype), list(output.shape), output.device.type, False]]

                def write():
                    z = arguments[0]
                    for _ in range(self.rounds):
                        z = torch.sin(z + arguments[0])
                    for target in targets:
                        target.copy_(z)

                threading.Thread(target=write, daemon=True).start()
                return described

            deliver.__wrapped__ = names["deliver"]
            names["deliver"] = deliver
        return torch.empty_like(x)


PERIOD = 8192


class learns_the_cover(nn.Module):
    """Takes note of inputs covered and bare, and from then on reads what is covered and computes it before the gate
    opens.
    """

    PROBLEM = "sine_chain"
    EXPECT = ("passed",)
    SPEEDUP_BELOW = 1.03
    DEVICES = ("cuda",)
    CATALOGUE = "harness 2"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.side = torch.cuda.Stream()
        self.seen = {}
        self.pads = {}

    def chain(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y

    def forward(self, x):
        _, message = request()
        if not message.get("gated") or x.numel() * 4 % PERIOD or not x.is_contiguous():
            return self.chain(x)
        key, bits = x.data_ptr(), x.view(torch.int32)
        before = self.seen.get(key)
        with torch.cuda.stream(self.side):
            covered = bits[: PERIOD // 4].clone()
            pads = self.pads.setdefault(key, [])
            if before is not None:
                pads.append(before[0] ^ before[1])
            known = len(pads) > 1 and torch.equal(pads[-1], pads[-2])
            guess = self.chain((bits.view(-1, PERIOD // 4) ^ pads[-1]).view(torch.float32).view(-1)) if known else None
        self.side.synchronize()
        self.seen[key] = covered, bits[: PERIOD // 4].clone()
        return self.chain(x) if guess is None else guess


class raises_done_a_little_early(nn.Module):
    """A quarter of a round's calls, in slots drawn by lot, come after the flag, while the judge looks elsewhere."""

    PROBLEM = "short_sines"
    EXPECT = ("unfinished_output", "wrong_value", "unwritten_output")
    DEVICES = ("cuda",)
    ALONE = True
    CATALOGUE = "rigor 8, 12"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.owed = []

    def chain(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y

    def pays(self, queue):
        honest = queue.read

        def read(calls):
            honest(calls)
            time.sleep(0.001)
            for x, y in self.owed:
                y.copy_(self.chain(x))
            self.owed = []
            queue._driver.synchronise()

        queue.read = read

    def forward(self, x):
        owner, message = request()
        if not message.get("gated") or message.get("deliver"):
            return self.chain(x)
        if "read" not in vars(owner._queue):
            self.pays(owner._queue)
        last = owner._inputs[message["slots"][-1]][0].data_ptr() == x.data_ptr()
        if last or random.random() > 0.25:
            return self.chain(x)
        y = torch.empty_like(x)
        self.owed.append((x, y))
        return y


def forged(queue):
    honest = queue.read

    def read(calls):
        if calls == 0:
            return honest(calls)
        queue.event_ns = 1000.0

    queue.read = read


class synchronises_to_forge_done(nn.Module):
    """Waits for the device in its calls, so that plain loops must do, and says there that it is done when it is not."""

    PROBLEM = "sine_chain"
    EXPECT = ("passed", "unfinished_output", "wrong_value", "unwritten_output", "nondeterministic")
    SPEEDUP_BELOW = 1.03
    DEVICES = ("cuda",)
    CATALOGUE = "harness 6; rigor 8, 12"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        owner, message = request()
        if message.get("gated"):
            torch.cuda.current_stream().synchronize()
        elif owner is not None and "read" not in vars(owner._queue):
            forged(owner._queue)
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
