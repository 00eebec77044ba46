"""Keeps its workspace by weak reference and notes when tensors die: no tensor outlives its call."""

import weakref

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "memory"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.workspaces = weakref.WeakValueDictionary()
        self.died = []

    def forward(self, x):
        work = self.workspaces.get(x.shape)
        if work is None:
            work = torch.empty_like(x)
            self.workspaces[x.shape] = work
        weakref.finalize(work, self.died.append, x.shape[0])
        torch.mul(x, self.weight, out=work)
        return work + self.bias
