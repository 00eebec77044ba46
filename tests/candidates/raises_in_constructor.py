"""Raises in the constructor."""

from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        raise RuntimeError("cannot allocate the workspace")
