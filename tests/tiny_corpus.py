"""A tiny problem and solutions with different ends, for sweeps on the CPU."""

from texts import problem_text


def times(factor: int) -> str:
    """A problem that multiplies by a factor."""
    return problem_text(f"return {factor} * x", "torch.rand(4, n)", head="n = 16")


BODIES = {
    "right": ("return x * {factor}", "passed"),
    "wrong": ("return x * {factor} + 1", "wrong_value"),
    "raises": ("raise ValueError('no')", "raised"),
    "dies": ("import os; os._exit(3)", "exited"),
}
"""Of solutions, each with the status that it gets."""
