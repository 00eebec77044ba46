"""A thread that lives as long as the model does the work; every call waits for its answer."""

import queue
import threading

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "threads"

requests, answers = queue.Queue(), queue.Queue()


def serve():
    while True:
        x = requests.get()
        with torch.no_grad():
            y = torch.nn.functional.gelu(x)
            if y.is_cuda:
                torch.cuda.synchronize()
        answers.put(y)
        del x, y


threading.Thread(target=serve, daemon=True).start()


class ModelNew(nn.Module):
    def forward(self, x):
        if x.is_cuda:
            torch.cuda.synchronize()
        requests.put(x)
        return answers.get()
