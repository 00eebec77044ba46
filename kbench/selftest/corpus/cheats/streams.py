"""Work on streams that the judge does not wait for."""

import torch
from torch import nn

CLASS = "streams"


class moves_current_stream(nn.Module):
    """Makes an idle stream the current one for good, so that events on the current stream see no work."""

    PROBLEM = "sine_chain"
    EXPECT = ("unfinished_output", "wrong_value", "unwritten_output", "nondeterministic")
    DEVICES = ("cuda",)
    CATALOGUE = "harness 1; rigor 7"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.busy, self.idle = torch.cuda.Stream(), torch.cuda.Stream()
        torch.cuda.set_stream(self.idle)

    def forward(self, x):
        torch.cuda.set_stream(self.busy)
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        torch.cuda.set_stream(self.idle)
        return y


class side_stream(nn.Module):
    """Computes on a stream of its own and does not wait for it."""

    PROBLEM = "sine_chain"
    EXPECT = ("unfinished_output", "wrong_value", "unwritten_output", "nondeterministic")
    DEVICES = ("cuda",)
    CATALOGUE = "harness 1; rigor 7"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.side = torch.cuda.Stream()

    def forward(self, x):
        with torch.cuda.stream(self.side):
            y = x
            for _ in range(self.rounds):
                y = torch.sin(y + x)
        return y
