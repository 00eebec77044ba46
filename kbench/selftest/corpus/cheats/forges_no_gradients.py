"""Has the worker leave out the gradients of a call, and the time that they take."""

import torch
from kbench.process.autograd import OUTPUT, Gradients
from torch import nn

PROBLEM = "gelu"
CLASS = "protocol"
EXPECT = ("wrong_output",)
OPTIONS = {"backward": True}
CATALOGUE = "rigor 12"
Gradients.call = lambda self, forward, state, arguments: {OUTPUT: forward(*arguments[:-1])}


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
