"""Planted faults: five small problems, and for each the solutions that are wrong in one known way."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from kbench.core.diagnosis import UNWRITTEN
from kbench.core.levels import TEXTS
from kbench.devices.poison import poison as fill

Values = Mapping[str, Tensor]
Function = Callable[..., Tensor]
"""From values of the parameters by name, then inputs, to the output."""


def to_fp16(x: Tensor) -> Tensor:
    return x.half().float()


def to_bf16(x: Tensor) -> Tensor:
    return x.bfloat16().float()


def to_tf32(x: Tensor) -> Tensor:
    """Cut off what TF32 lacks, as a tensor core does."""
    return (x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


def same(x: Tensor) -> Tensor:
    return x


def normed(x: Tensor, dims: Any, *, eps: float = 1e-5, correction: int = 0, outside: bool = False) -> Tensor:
    centred = x - x.mean(dims, keepdim=True)
    variance = x.var(dims, correction=correction, keepdim=True)
    return centred / (variance.sqrt() + eps) if outside else centred / (variance + eps).sqrt()


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A problem: a module, how to draw its inputs, and functions that are wrong in a known way, by kind."""

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], list[Tensor]]
    wrong: Mapping[str, Function]
    """By `code` or `code/variant`; what is no code has no name."""
    strange: Mapping[str, Function]
    """Wrong in ways that have no name."""


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


def linear(v: Values, x: Tensor, cast: Callable[[Tensor], Tensor] = same) -> Tensor:
    return functional.linear(cast(x), cast(v["linear.weight"]), v["linear.bias"])


class LayerNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(48)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)


def layer_norm(
    v: Values, x: Tensor, scale: bool = True, shift: bool = True, dims: tuple[int, ...] = (-1,), **how: Any
) -> Tensor:
    y = normed(x, dims, **how)
    y = y * v["norm.weight"] if scale else y
    return y + v["norm.bias"] if shift else y


class Conv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(6, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.conv(x))


def conv(v: Values, x: Tensor, cast: Callable[[Tensor], Tensor] = same, bias: bool = True) -> Tensor:
    return torch.relu(functional.conv2d(cast(x), cast(v["conv.weight"]), v["conv.bias"] if bias else None, padding=1))


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(32, 64)
        self.down = nn.Linear(64, 32)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.gelu(self.up(x)))


def perceptron(v: Values, x: Tensor, cast: Callable[[Tensor], Tensor] = same, **left_out: bool) -> Tensor:
    up = None if left_out.get("up") else v["up.bias"]
    down = None if left_out.get("down") else v["down.bias"]
    hidden = functional.gelu(functional.linear(cast(x), cast(v["up.weight"]), up))
    return functional.linear(cast(hidden), cast(v["down.weight"]), down)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(32, 96)
        self.out = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x).view(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(found.transpose(1, 2).reshape(x.shape))


def attention(
    v: Values,
    x: Tensor,
    cast: Callable[[Tensor], Tensor] = same,
    scale: float = 8**-0.5,
    masks: bool = True,
    diagonal: int = 1,
) -> Tensor:
    projected = functional.linear(cast(x), cast(v["project.weight"]), v["project.bias"])
    q, k, values = projected.view(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4)
    scores = cast(q) @ cast(k).mT * scale
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(diagonal)
    scores = torch.softmax(scores.masked_fill(future, -torch.inf) if masks else scores, dim=-1)
    found = (cast(scores) @ cast(values)).transpose(1, 2).reshape(x.shape)
    return functional.linear(cast(found), cast(v["out.weight"]), v["out.bias"])


def normal(*shape: int) -> Callable[[], list[Tensor]]:
    return lambda: [torch.randn(shape)]


def in_halves(function: Function) -> dict[str, Function]:
    """Return a function of a `cast` argument in each coarser arithmetic."""
    return {
        "tf32/products": lambda v, *x: function(v, *x, cast=to_tf32),
        "fp16/products": lambda v, *x: function(v, *x, cast=to_fp16),
        "bf16/products": lambda v, *x: function(v, *x, cast=to_bf16),
    }


def of_norm(function: Function) -> dict[str, Function]:
    return {
        "epsilon": lambda v, x: function(v, x, eps=1e-3),
        "epsilon/none": lambda v, x: function(v, x, eps=0.0),
        "epsilon/outside": lambda v, x: function(v, x, outside=True),
        "biased_variance": lambda v, x: function(v, x, correction=1),
        "missing_bias": lambda v, x: function(v, x, shift=False),
        "missing_scale": lambda v, x: function(v, x, scale=False),
        "missing_scale/affine": lambda v, x: function(v, x, scale=False, shift=False),
    }


def small(*shape: int) -> Callable[[], list[Tensor]]:
    """Inputs whose variances are near the epsilons."""
    return lambda: [torch.randn(shape) * 0.02 * (0.2 + torch.rand(shape[0]).view(-1, *[1] * (len(shape) - 1)))]


PROBLEMS = (
    Planted(
        name="linear",
        make=Linear,
        inputs=normal(96, 64),
        wrong={
            **in_halves(linear),
            "missing_bias": lambda v, x: x @ v["linear.weight"].T,
            "transposed/weight": lambda v, x: x @ v["linear.weight"] + v["linear.bias"],
            "bf16/stored": lambda v, x: to_bf16(linear(v, x)),
            "other_function/relu": lambda v, x: linear(v, x).relu(),
            "missing_tail/off by one": lambda v, x: x[:, :-1] @ v["linear.weight"][:, :-1].T + v["linear.bias"],
            "missing_tail/one tile": lambda v, x: x[:, :32] @ v["linear.weight"][:, :32].T + v["linear.bias"],
        },
        strange={
            "bias twice": lambda v, x: linear(v, x) + v["linear.bias"],
            "a term in the middle": lambda v, x: linear(v, x) - x[:, 17:18] * v["linear.weight"][:, 17],
        },
    ),
    Planted(
        name="layer_norm",
        make=LayerNorm,
        inputs=small(64, 48),
        wrong={
            **of_norm(layer_norm),
            "other_dimension/batch": lambda v, x: layer_norm(v, x, dims=(0, 1)),
            "other_order": lambda v, x: (layer_norm(v, x, scale=False)) * v["norm.weight"],
        },
        strange={
            "bias twice": lambda v, x: layer_norm(v, x) + v["norm.bias"],
            "by the largest": lambda v, x: x / x.abs().amax(-1, keepdim=True) * v["norm.weight"] + v["norm.bias"],
        },
    ),
    Planted(
        name="conv",
        make=Conv,
        inputs=normal(3, 6, 9, 9),
        wrong={
            **in_halves(conv),
            "missing_bias": lambda v, x: conv(v, x, bias=False),
            "missing_function": lambda v, x: functional.conv2d(x, v["conv.weight"], v["conv.bias"], padding=1),
            "other_function": lambda v, x: functional.leaky_relu(
                functional.conv2d(x, v["conv.weight"], v["conv.bias"], padding=1)
            ),
            "other_order": lambda v, x: conv(v, x, bias=False) + v["conv.bias"][:, None, None],
            "other_window/flipped": lambda v, x: conv({**v, "conv.weight": v["conv.weight"].flip(-1, -2)}, x),
            "other_window/padding": lambda v, x: torch.relu(
                functional.conv2d(functional.pad(x, (0, 2, 0, 2)), v["conv.weight"], v["conv.bias"])
            ),
            "missing_tail/channel": lambda v, x: conv(v, torch.cat([x[:, :-1], 0 * x[:, -1:]], 1)),
            "fp16/half": lambda v, x: torch.relu(
                functional.conv2d(x.half(), v["conv.weight"].half(), v["conv.bias"].half(), padding=1)
            ).float(),
        },
        strange={
            "flipped one way": lambda v, x: conv({**v, "conv.weight": v["conv.weight"].flip(-1)}, x),
            "channels shifted": lambda v, x: conv(v, x.roll(1, 1)),
        },
    ),
    Planted(
        name="perceptron",
        make=Perceptron,
        inputs=normal(50, 32),
        wrong={
            **in_halves(perceptron),
            "missing_bias/up": lambda v, x: perceptron(v, x, up=True),
            "missing_bias/down": lambda v, x: perceptron(v, x, down=True),
            "missing_bias/both": lambda v, x: perceptron(v, x, up=True, down=True),
            "bf16/all": lambda v, x: functional.linear(
                functional.gelu(functional.linear(x.bfloat16(), v["up.weight"].bfloat16(), v["up.bias"].bfloat16())),
                v["down.weight"].bfloat16(),
                v["down.bias"].bfloat16(),
            ).float(),
            "gelu_form": lambda v, x: functional.linear(
                functional.gelu(functional.linear(x, v["up.weight"], v["up.bias"]), approximate="tanh"),
                v["down.weight"],
                v["down.bias"],
            ),
            "other_function/relu": lambda v, x: functional.linear(
                functional.relu(functional.linear(x, v["up.weight"], v["up.bias"])), v["down.weight"], v["down.bias"]
            ),
            "missing_function": lambda v, x: functional.linear(
                functional.linear(x, v["up.weight"], v["up.bias"]), v["down.weight"], v["down.bias"]
            ),
            "other_order": lambda v, x: functional.linear(
                functional.gelu(functional.linear(x, v["up.weight"])) + v["up.bias"], v["down.weight"], v["down.bias"]
            ),
        },
        strange={
            "of squares": lambda v, x: perceptron(v, x.square()),
        },
    ),
    Planted(
        name="attention",
        make=Attention,
        inputs=normal(3, 16, 32),
        wrong={
            **in_halves(attention),
            "missing_scale": lambda v, x: attention(v, x, scale=1.0),
            "missing_mask": lambda v, x: attention(v, x, masks=False),
            "missing_bias": lambda v, x: attention({**v, "out.bias": torch.zeros(32)}, x),
            "other_window/mask": lambda v, x: attention(v, x, diagonal=2),
        },
        strange={
            "other scale": lambda v, x: attention(v, x, scale=1 / 8),
            "values at random": lambda v, x: attention(v, x.flip(1)),
        },
    ),
)


def poison(like: Tensor) -> Tensor:
    found = torch.empty_like(like)
    fill(found.view(torch.uint8).flatten())
    return found


def no_first_block(want: Tensor) -> Tensor:
    got = poison(want)
    got.view(-1)[:64] = want.flatten()[:64]
    return got


def no_tail(want: Tensor) -> Tensor:
    got = want.clone()
    got.view(-1)[-7:] = poison(want).flatten()[-7:]
    return got


def no_third_row(want: Tensor) -> Tensor:
    rows = want.clone().flatten(0, -2)
    rows[2::3] = poison(rows)[2::3]
    return rows.view(want.shape)


def zero_tail(want: Tensor) -> Tensor:
    got = want.clone()
    got[..., -3:] = 0
    return got


def stale_row(want: Tensor) -> Tensor:
    got = want.clone()
    got[-1] = want[0]
    return got


def exchanged(want: Tensor) -> Tensor:
    return want.transpose(-1, -2).reshape(want.shape)


OF_OUTPUTS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "unwritten_output/but the first block": no_first_block,
    "unwritten_output/tail": no_tail,
    "unwritten_output/every third row": no_third_row,
    "partial_block/tail of rows": zero_tail,
    "partial_block/last entry": stale_row,
    "transposed/output": exchanged,
    "constant_error/negated": lambda want: -want,
    "constant_error/a little larger": lambda want: want * 1.01,
    "constant_error/shifted": lambda want: want + 0.1,
    "displaced/on": lambda want: want.roll(1, -1),
    "displaced/back": lambda want: want.roll(-1, 0),
}
"""Faults that any output can have."""


def noise(want: Tensor) -> Tensor:
    return want + 1e-3 * want.std() * torch.randn_like(want)


def some_noise(want: Tensor) -> Tensor:
    return torch.where(torch.rand_like(want) < 0.1, want + want.std() * torch.randn_like(want), want)


NAMELESS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "noise": noise,
    "noise here and there": some_noise,
    "noise of a bf16's size": lambda want: want * (1 + torch.randn_like(want) * 2.0**-9),
    "noise of a tf32's size": lambda want: want * (1 + torch.randn_like(want) * 2.0**-12),
    "zeros": torch.zeros_like,
    "ones": torch.ones_like,
    "shuffled": lambda want: want.flatten()[torch.randperm(want.numel())].view(want.shape),
    "nan": lambda want: torch.full_like(want, torch.nan),
    "one nan": lambda want: torch.where(torch.arange(want.numel()).view(want.shape) == 17, torch.nan, want),
    "one element": lambda want: torch.where(torch.arange(want.numel()).view(want.shape) == 17, want + 1, want),
}
"""Wrong in ways that no code is for."""


def faults(problem: Planted) -> Iterator[tuple[str, str]]:
    """Yield (code that is right, or empty; name of the fault)."""
    for name in (*problem.wrong, *OF_OUTPUTS, "stale_output"):
        code = name.partition("/")[0]
        yield code if code in {UNWRITTEN, *TEXTS["diagnosis"]} else "", name
    if list(problem.make().parameters()):
        yield from (("frozen_weights", f"frozen_weights/{when}") for when in ("all", "one"))
    yield from (("", name) for name in (*problem.strange, *NAMELESS))
