"""Frozen dataclasses, an enumeration and a protocol around one line of arithmetic."""

from __future__ import annotations

import dataclasses
import enum
import typing

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "python"


class Order(enum.Enum):
    ROWS = "rows"
    COLUMNS = "columns"


class Kernel(typing.Protocol):
    def __call__(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor: ...


@dataclasses.dataclass(frozen=True)
class Plan:
    inputs: int
    outputs: int
    order: Order = Order.COLUMNS
    tile: int = dataclasses.field(default=48, compare=False)

    def kernel(self) -> Kernel:
        def run(x, weight, bias):
            return torch.cat([x @ w.t() + b for w, b in zip(weight.split(self.tile), bias.split(self.tile))], dim=1)

        return run


class ModelNew(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.run = Plan(inputs, outputs).kernel()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(x, self.fc.weight, self.fc.bias)
