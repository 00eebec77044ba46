"""Cells instead of a layer: the same parameters in the same order, and the last state is a view of the first output."""

import torch
from torch import nn

PROBLEM = "lstm"
CLASS = "weights"


class ModelNew(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.cell = nn.LSTMCell(inputs, hidden)

    def forward(self, x, h0, c0):
        y = torch.empty(x.shape[0], x.shape[1], h0.shape[-1], device=x.device)
        h, c = h0[0], c0[0]
        for number, step in enumerate(x.unbind(1)):
            h, c = self.cell(step, (h, c))
            y[:, number] = h
        return y, (y[:, -1][None], c[None])
