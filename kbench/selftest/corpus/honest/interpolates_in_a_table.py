"""Precomputes a table of the normal distribution and interpolates in it by cubics: a table of f, not of answers."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "precision"

LIMIT, STEPS = 8.0, 4096


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        nodes = torch.linspace(-LIMIT, LIMIT, STEPS + 1, dtype=torch.float64)
        self.register_buffer("values", torch.special.ndtr(nodes))
        self.register_buffer("slopes", torch.exp(-nodes * nodes / 2) / (2 * torch.pi) ** 0.5)

    def forward(self, x):
        step = 2 * LIMIT / STEPS
        place = (x.double().clamp(-LIMIT, LIMIT) + LIMIT) / step
        at = place.nan_to_num().long().clamp(0, STEPS - 1)
        t = place - at
        a, b = self.values[at], self.values[at + 1]
        u, v = self.slopes[at] * step, self.slopes[at + 1] * step
        share = a + t * (u + t * (3 * (b - a) - 2 * u - v + t * (2 * (a - b) + u + v)))
        return (x * share).float()
