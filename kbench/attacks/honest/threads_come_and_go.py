"""Starts threads that nobody joins and that end at once, with or without a call: none of them runs while it is stopped."""

import threading
import time

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "threads"


def come_and_go():
    while True:
        threading.Thread(target=time.sleep, args=(1e-3,), daemon=True).start()
        time.sleep(1e-3)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        threading.Thread(target=come_and_go, daemon=True).start()

    def forward(self, x):
        threading.Thread(target=time.sleep, args=(1e-4,), daemon=True).start()
        return torch.nn.functional.gelu(x)
