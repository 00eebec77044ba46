"""Results in memory that torch's allocator has never seen: NumPy's, handed over by DLPack."""

import numpy
import torch
from torch import nn

PROBLEM = "relu"
CLASS = "memory"
DEVICES = ("cpu",)
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        values = numpy.from_dlpack(x.detach().contiguous())
        result = numpy.empty(values.shape, dtype=numpy.float32)
        numpy.maximum(values, 0, out=result)
        return torch.utils.dlpack.from_dlpack(result)
