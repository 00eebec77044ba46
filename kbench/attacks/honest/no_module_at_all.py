"""A class that is no nn.Module and is merely callable: it has no parameters to hide."""

import torch

PROBLEM = "gelu"
CLASS = "python"
SPEED = "fast"


class ModelNew:
    __slots__ = ("scale",)

    def __init__(self):
        self.scale = 0.5**0.5

    def __call__(self, x):
        return torch.special.ndtr(x / self.scale * self.scale) * x
