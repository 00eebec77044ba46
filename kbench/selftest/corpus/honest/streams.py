"""Solutions that use streams and events, and wait for what they started."""

import torch
from torch import nn

CLASS = "streams"


PIECES = 500


class launches_thousands(nn.Module):
    """Works on pieces, with more launches in a call than the device's queue holds."""

    PROBLEM = "short_sines"
    DEVICES = ("cuda",)

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        for given, found in zip(x.reshape(-1).chunk(PIECES), y.reshape(-1).chunk(PIECES), strict=True):
            value = given
            for _ in range(self.rounds):
                value = torch.sin(value + given)
            found.copy_(value)
        return y


class looks_at_a_value(nn.Module):
    """Asks whether its input is finite, on the host, before it computes."""

    PROBLEM = "sine_chain"
    DEVICES = ("cuda", "cpu")

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        if not bool(torch.isfinite(x[:1]).item()):
            return torch.full_like(x, float("nan"))
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y


class queries_its_event(nn.Module):
    """Records an event and asks whether it has happened, without waiting for it."""

    PROBLEM = "short_sines"
    DEVICES = ("cuda",)

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.last = None
        self.was_done = 0

    def forward(self, x):
        if self.last is not None:
            self.was_done += self.last.query()
        self.last = torch.cuda.Event()
        self.last.record()
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y


class side_stream_joined(nn.Module):
    """Computes on a stream of its own and joins it by events."""

    PROBLEM = "sine_chain"
    DEVICES = ("cuda",)

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.side = torch.cuda.Stream()

    def forward(self, x):
        current = torch.cuda.current_stream()
        self.side.wait_stream(current)
        with torch.cuda.stream(self.side):
            y = x
            for _ in range(self.rounds):
                y = torch.sin(y + x)
        current.wait_stream(self.side)
        y.record_stream(current)
        return y


class two_streams_joined(nn.Module):
    """Halves on two streams, joined by events."""

    PROBLEM = "sine_chain"
    DEVICES = ("cuda",)

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.streams = [torch.cuda.Stream() for _ in range(2)]

    def forward(self, x):
        current, y = torch.cuda.current_stream(), torch.empty_like(x)
        for stream, source, target in zip(self.streams, x.chunk(2), y.chunk(2)):
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                z = source
                for _ in range(self.rounds):
                    z = torch.sin(z + source)
                target.copy_(z)
            current.wait_stream(stream)
        return y


class waits_for_the_device(nn.Module):
    """Waits for the device at the end of every call, as careful wrappers do."""

    PROBLEM = "sine_chain"
    DEVICES = ("cuda",)

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        torch.cuda.synchronize()
        return y
