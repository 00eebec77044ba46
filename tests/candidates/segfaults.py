"""Reads address zero."""

import ctypes

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return ctypes.string_at(0)
