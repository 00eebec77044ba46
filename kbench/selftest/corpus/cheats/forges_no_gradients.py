"""Has the worker answer with too short a list of gradients."""

import kbench.worker.main as worker
import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "protocol"
EXPECT = ("protocol_error",)
OPTIONS = {"backward": True}
CATALOGUE = "rigor 12"
worker.Worker.do_backward = lambda self, message: {"given": []}


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
