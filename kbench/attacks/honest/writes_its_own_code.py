"""Generates its function as text and runs it through `exec`, as templates of kernels do."""

import linecache

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "python"

TEMPLATE = "def slices(x, w):\n    return {terms}\n"


def generate(count, step):
    terms = " + ".join(f"x[:, {k}:{k + step}] @ w[:, {k}:{k + step}].t()" for k in range(0, count, step))
    text = TEMPLATE.format(terms=terms)
    linecache.cache["<slices>"] = (len(text), None, text.splitlines(True), "<slices>")
    names = {}
    exec(compile(text, "<slices>", "exec"), names)
    return names["slices"]


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.slices = generate(inputs, 64)

    def forward(self, x):
        return self.slices(x, self.fc.weight) + self.fc.bias
