"""Works in a mapped temporary file and in anonymous mapped memory."""

import mmap
import tempfile

import numpy
import torch
from torch import nn

PROBLEM = "relu"
CLASS = "memory"
DEVICES = ("cpu",)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.file = tempfile.NamedTemporaryFile()

    def forward(self, x):
        spill = numpy.memmap(self.file.name, dtype=numpy.float32, mode="w+", shape=tuple(x.shape))
        spill[:] = x.numpy()
        anonymous = torch.frombuffer(mmap.mmap(-1, 4 * x.numel()), dtype=torch.float32).view(x.shape)
        anonymous.copy_(torch.from_numpy(spill))
        return anonymous.clamp_(min=0)
