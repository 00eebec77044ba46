"""A daemon thread that waits for work and finds none: logging and metrics libraries start such threads."""

import queue
import threading

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "threads"

events = queue.Queue()


def collect():
    while True:
        events.get()


threading.Thread(target=collect, daemon=True).start()


class ModelNew(nn.Module):
    def forward(self, x):
        events.put(tuple(x.shape))
        return torch.nn.functional.gelu(x)
