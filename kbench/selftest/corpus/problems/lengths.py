"""Lengths of padded sequences: a float mask in, int64 out."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, mask):
        return mask.sum(-1).long()


batch = 16
length = 200
CASES = {"default": {}, "ragged": {"batch": 3, "length": 77}}


def get_inputs():
    lengths = torch.randint(1, length, (batch, 1))
    return [(torch.arange(length)[None] < lengths).float()]


def get_init_inputs():
    return []
