"""Solutions that use threads, and wait for what they started."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

CLASS = "threads"


class thread_pool_joined(nn.Module):
    """Halves of the batch on two Python threads, joined before it returns."""

    PROBLEM = "sine_chain"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.pool = ThreadPoolExecutor(2)

    def _part(self, x):
        with torch.no_grad():
            y = x
            for _ in range(self.rounds):
                y = torch.sin(y + x)
            return y

    def forward(self, x):
        return torch.cat(list(self.pool.map(self._part, x.chunk(2))))


def come_and_go():
    while True:
        threading.Thread(target=time.sleep, args=(1e-3,), daemon=True).start()
        time.sleep(1e-3)


class threads_come_and_go(nn.Module):
    """Starts threads that nobody joins and that end at once, with or without a call: none of them runs while it is
    stopped.
    """

    PROBLEM = "gelu"

    def __init__(self):
        super().__init__()
        threading.Thread(target=come_and_go, daemon=True).start()

    def forward(self, x):
        threading.Thread(target=time.sleep, args=(1e-4,), daemon=True).start()
        return torch.nn.functional.gelu(x)


class threads_of_each_call(nn.Module):
    """Starts threads in every call and joins them: each writes a slice of the result that no other touches."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        y = torch.empty(x.shape[0], self.fc.out_features, device=x.device)

        def fill(rows):
            with torch.no_grad():
                y[rows] = x[rows] @ self.fc.weight.t() + self.fc.bias

        middle = x.shape[0] // 2
        threads = [threading.Thread(target=fill, args=(part,)) for part in (slice(middle), slice(middle, None))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return y
