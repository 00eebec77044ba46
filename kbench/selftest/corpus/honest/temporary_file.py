"""Spills to a temporary file and reads it back."""

import tempfile

import numpy
import torch
from torch import nn

PROBLEM = "relu"
CLASS = "manners"
DEVICES = ("cpu",)


class ModelNew(nn.Module):
    def forward(self, x):
        with tempfile.TemporaryFile() as file:
            numpy.save(file, torch.relu(x).numpy())
            file.seek(0)
            return torch.from_numpy(numpy.load(file))
