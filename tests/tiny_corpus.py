"""A tiny problem and solutions of it, as texts, for tests that need one whatever it computes."""

BODIES = {
    "right": ("return x * {factor}", "passed"),
    "wrong": ("return x * {factor} + 1", "wrong_value"),
    "raises": ("raise ValueError('no')", "raised"),
    "dies": ("import os; os._exit(3)", "exited"),
}
"""Bodies of `forward` with different ends."""


def problem(
    result: str = "2 * x",
    *,
    given: str = "torch.rand(4, n)",
    constants: str = "n = 16",
    layers: str = "",
    takes: str = "",
    inputs: str = "x",
) -> str:
    """Write a problem; its constructor makes `layers`, lines of code, and `takes` a constant.

    `result` is an expression, or a body of `forward` that returns.
    """
    made = f"\n\ndef get_inputs():\n    return [{given}]\n\n\ndef get_init_inputs():\n    return [{takes}]\n"
    body = result if "return " in result else f"return {result}"
    return _module("Model", body, constants, layers, takes, inputs) + made


def solution(body: str, *, head: str = "", layers: str = "", takes: str = "", inputs: str = "x") -> str:
    """Write a solution from the body of its `forward`, and what stands above the class."""
    return _module("ModelNew", body, head, layers, takes, inputs)


def _module(name: str, body: str, head: str, layers: str, takes: str, inputs: str) -> str:
    arguments = f", {takes}" if takes else ""
    made = f"    def __init__(self{arguments}):\n        super().__init__()\n        {layers}\n\n" if layers else ""
    return (
        f"import torch\nfrom torch import nn\n\n{head}\n\n\nclass {name}(nn.Module):\n"
        f"{made}    def forward(self, {inputs}):\n        {body}\n"
    )
