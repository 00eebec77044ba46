"""Starts threads in every call and joins them: each writes a slice of the result that no other touches."""

import threading

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "threads"


class ModelNew(nn.Module):
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
