"""The recurrence written out, its input projection for all steps ahead."""

import torch
from torch import nn

PROBLEM = "lstm"
CLASS = "output"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, batch_first=True)

    def forward(self, x, h0, c0):
        layer, h, c, steps = self.lstm, h0[0], c0[0], []
        projected = x @ layer.weight_ih_l0.t() + layer.bias_ih_l0
        for step in projected.unbind(1):
            gates = step + h @ layer.weight_hh_l0.t() + layer.bias_hh_l0
            i, f, g, o = gates.chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            steps.append(h)
        return torch.stack(steps, 1), (h[None], c[None])
