"""A tiny problem and solutions with different ends, for sweeps on the CPU."""

PROBLEM = '''"""Doubles."""
import torch

n = 16


class Model(torch.nn.Module):
    def forward(self, x):
        return {factor} * x


def get_inputs():
    return [torch.rand(4, n)]


def get_init_inputs():
    return []
'''
SOLUTION = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        {body}
"""
BODIES = {
    "right": ("return x * {factor}", "passed"),
    "wrong": ("return x * {factor} + 1", "wrong_value"),
    "raises": ("raise ValueError('no')", "raised"),
    "dies": ("import os; os._exit(3)", "exited"),
}
