"""Functions of one value: another one in its place, or none."""

import functools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional

from kbench.judge.diagnosis.slips.call import OperatorCall, Slip

Function = Callable[[Tensor], Tensor]
NAMED = (
    *("relu", "leaky_relu", "elu", "selu", "gelu", "silu", "mish", "softplus", "sigmoid", "tanh", "hardswish"),
    *("hardsigmoid", "hardtanh", "relu6"),
)
ACTIVATIONS: dict[str, Function] = {name: getattr(functional, name) for name in NAMED} | {"abs": torch.abs}
FAMILIES: tuple[dict[str, Function], ...] = (
    ACTIVATIONS,
    {"log": torch.log, "log1p": torch.log1p, "log2": torch.log2, "log10": torch.log10},
    {"exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1},
    {"pow": torch.square, "absolute values": torch.abs},
    {"sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal},
)
"""Functions that are taken for each other."""
MORE: dict[str, dict[str, Function]] = {
    "gelu": {
        "x·sigmoid(1.702·x)": lambda x: x * torch.sigmoid(1.702 * x),
        "gelu without its √2": lambda x: 0.5 * x * (1 + torch.erf(x)),
    },
    "hardswish": {
        "x·(x + 3)/6 without bounds": lambda x: x * (x + 3) / 6,
        "x·relu6(x)/6": lambda x: x * functional.relu6(x) / 6,
    },
    "mish": {
        "x·sigmoid(softplus(x))": lambda x: x * torch.sigmoid(functional.softplus(x)),
        "tanh(softplus(x))": lambda x: torch.tanh(functional.softplus(x)),
        "x·tanh(x) (log in place of log1p)": lambda x: x * torch.tanh(x),
    },
    "leaky_relu": {
        f"leaky_relu of slope {slope:g}": functools.partial(functional.leaky_relu, negative_slope=slope)
        for slope in (0.01, 0.1, 0.2)
    },
    "softplus": {"softplus to the base of 2": lambda x: torch.log2(1 + torch.exp(x))},
}
"""By function, forms that are close to it."""
BOUNDS = {"clamp", "hardtanh"}


def slips(call: OperatorCall) -> Iterator[Slip]:
    """Yield what may be done in place of a function of one value: leaving it out, one of the same family, one bound."""
    x = call.tensor(0)
    family = next((family for family in FAMILIES if call.name in family), {})
    if x is None or not (family or call.name in BOUNDS) or (call.name == "pow" and call.args[1] != 2):
        return
    if call.name == "gelu":
        own, other = ("tanh", "erf") if call.kwargs.get("approximate") == "tanh" else ("erf", "tanh")
        sentence = f"computes GELU by {other} where the reference does so by {own}"
        other_form = functools.partial(functional.gelu, x, approximate="none" if other == "erf" else "tanh")
        yield "gelu_form", sentence, other_form
    yield "missing_function", f"leaves out `{call.shown}`", x.clone
    low, high = call.argument(1), call.argument(2)
    if call.name in BOUNDS and low is not None and high is not None:
        yield "missing_function", f"leaves out the lower bound of `{call.shown}`", lambda: x.clamp_max(high)
        yield "missing_function", f"leaves out the upper bound of `{call.shown}`", lambda: x.clamp_min(low)
    for name, function in {**family, **MORE.get(call.name, {})}.items():
        if name != call.name:
            quoted = f"`{name}`" if name.isidentifier() else name
            sentence = f"computes {quoted} where the reference computes `{call.shown}`"
            yield "other_function", sentence, functools.partial(function, x)
