"""A tiny problem and solutions of it, as texts, for tests that need one whatever it computes."""

BODIES = {
    "right": ("return x * {factor}", "passed"),
    "wrong": ("return x * {factor} + 1", "wrong_value"),
    "raises": ("raise ValueError('no')", "raised"),
    "dies": ("import os; os._exit(3)", "exited"),
}
"""Bodies of `forward` with different ends."""


def problem(result: str = "2 * x", *, given: str = "torch.rand(4, n)", constants: str = "n = 16") -> str:
    """Write a problem of one input and no parameters."""
    return f'''"""Tiny."""
import torch

{constants}


class Model(torch.nn.Module):
    def forward(self, x):
        return {result}


def get_inputs():
    return [{given}]


def get_init_inputs():
    return []
'''


def solution(body: str, *, head: str = "") -> str:
    """Write a solution from the body of its `forward`, and what stands above the class."""
    return f"""import torch
{head}

class ModelNew(torch.nn.Module):
    def forward(self, x):
        {body}
"""
