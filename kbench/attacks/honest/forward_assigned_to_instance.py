"""Assigns `forward` on the instance, as a cheat does that escapes a check of the class: here to choose a variant."""

import functools

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "python"
SPEED = "fast"


def affine(layer, transpose, x):
    if transpose:
        return (layer.weight @ x.t()).t() + layer.bias
    return torch.addmm(layer.bias, x, layer.weight.t())


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.forward = functools.partial(affine, self.fc, outputs > inputs)
