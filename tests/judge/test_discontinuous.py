"""Outputs behind a rounding, a comparison or a choice: honest code is right in each draw, a wrong code in none."""

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import tiny_corpus
import torch
from torch import Tensor

from kbench.judge.comparison import Tally
from kbench.judge.exchange import Trial
from kbench.judge.reference.reference import Reference
from kbench.numerics import codes

DRAWS = 12

HELPERS = """
def rows(middles, top):
    x, largest = torch.randn(32, 256).clamp(-3, 3), 3 + torch.rand(32)
    x[:, 0], x[:, 1], x[:16, 2] = largest, -largest, middles * largest[:16] / top
    return x

def cancelling(x, w):
    far = 5e-4 * torch.randn(32, 256) - (x.double() @ w.double()).float()
    return x, w, torch.where(torch.arange(256) < 8, far, 0.0)

def alike(x):
    x[:, 2:5] = x[:, :1].abs().expand(-1, 3, -1).gather(2, torch.rand(32, 3, 300).argsort(-1))
    return x
"""
"""`rows` have values of both signs up to another largest one, and 16 values in the middle between two codes.

In `cancelling`, eight columns of x @ w + z are near zero.
In `alike`, the rows with the three largest sums have the same values in another order.
"""


@dataclass(frozen=True, kw_only=True)
class Example:
    """A reference, and an honest solution of the same problem."""

    body: str
    solution: Callable[..., Any]
    inputs: str
    parameters: str = "x"
    differs: bool = True
    """Whether honest codes differ somewhere in these draws."""


def trial_of(folder, example: Example, **options: Any) -> Any:
    path = folder / "problem.py"
    body = textwrap.indent(textwrap.dedent(example.body).strip(), " " * 8).strip()
    path.write_text(tiny_corpus.problem(body, given=example.inputs, constants=HELPERS, inputs=example.parameters))
    trial: Any = object.__new__(Trial)
    trial.reference = Reference(path, {}, "cpu", allow_tf32=False, **options)
    trial.tally, trial.earlier = Tally(), []
    return trial


def is_right(trial: Any, seed: int, solution: Callable[..., Any]) -> bool:
    expected = trial.reference.expect(trial.reference.arguments(seed))
    given = solution(*[a.clone() for a in expected.arguments])
    found = trial.compare(list(given) if isinstance(given, tuple) else [given], expected)
    if found.ruling.right:
        trial.tally.add(found)
    return bool(found.ruling.right)


def one_code_off(values: Tensor, chosen: Tensor) -> Tensor:
    """Return codes of which the chosen ones are one code away."""
    if values.dtype == torch.bool:
        return values ^ chosen
    if values.dtype == torch.float32:
        return values + chosen * scale_of(values, 127)
    raw = values.view(torch.uint8) if codes.is_float8(values.dtype) else values
    moved = raw ^ 1 if codes.is_float8(values.dtype) else torch.where(values > 0, raw - 1, raw + 1)
    return torch.where(chosen, moved, raw).view(values.dtype)


def scale_of(x: Tensor, top: float) -> Tensor:
    return x.abs().amax(-1, keepdim=True) / top


def half_away(v: Tensor) -> Tensor:
    return v.sign() * (v.abs() + 0.5).floor()


def fp8_rows(y: Tensor) -> Tensor:
    return (y * (1 / scale_of(y, 448))).to(torch.float8_e4m3fn)


def packed(q: Tensor) -> Tensor:
    return (q[:, ::2] | q[:, 1::2] << 4).to(torch.uint8)


def unsigned(x: Tensor) -> Tensor:
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    return ((x - low) * (255 / (high - low))).round().clamp(0, 255).to(torch.uint8)


SCALE = "scale = x.abs().amax(-1, keepdim=True) / {top}\n"
INT8 = SCALE.format(top=127) + "return (x / scale).round().clamp(-128, 127).to(torch.int8)"
MIDDLES = "rows(torch.randint(0, 100, (16,)) + 0.5, 127)"


def float8(dtype: str, top: float, codes_of_binade: int) -> Example:
    middles = f"8 + 8 * (torch.randint(0, {codes_of_binade}, (16,)) + 0.5) / {codes_of_binade}"
    return Example(
        body=SCALE.format(top=top) + f"return (x / scale).clamp(-{top}, {top}).to(torch.{dtype})",
        solution=lambda x: (x * (1 / scale_of(x, top))).clamp(-top, top).to(getattr(torch, dtype)),
        inputs=f"rows({middles}, {top})",
    )


EXAMPLES = {
    "fp8 e4m3 by reciprocal": float8("float8_e4m3fn", 448.0, 8),
    "fp8 e5m2 by reciprocal": float8("float8_e5m2", 57344.0, 4),
    "int8 by reciprocal": Example(
        body=INT8,
        solution=lambda x: (x * (1 / scale_of(x, 127))).round().clamp(-128, 127).to(torch.int8),
        inputs=MIDDLES,
    ),
    "int8 half away for half even": Example(
        body=INT8,
        solution=lambda x: half_away(x * (127 / x.abs().amax(-1, keepdim=True))).clamp(-128, 127).to(torch.int8),
        inputs=MIDDLES,
    ),
    "int8 half even for half away": Example(
        body=SCALE.format(top=127) + "v = x / scale\nreturn (v.sign() * (v.abs() + 0.5).floor()).to(torch.int8)",
        solution=lambda x: (x * (1 / scale_of(x, 127))).round().to(torch.int8),
        inputs=MIDDLES,
    ),
    "int8 cut off": Example(
        body=SCALE.format(top=127) + "return (x / scale).to(torch.int8)",
        solution=lambda x: (x * (1 / scale_of(x, 127)) * (1 - 1e-7)).to(torch.int8),
        inputs="torch.randn(32, 256)",
    ),
    "uint8 by reciprocal": Example(
        body="""
            low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
            return ((x - low) / ((high - low) / 255)).round().clamp(0, 255).to(torch.uint8)
        """,
        solution=unsigned,
        inputs="rows(torch.randint(0, 255, (16,)) - 127.0, 127.5)",
    ),
    "int8 of bf16": Example(
        body="return (x / (x.abs().amax(-1, keepdim=True) / 127)).round().clamp(-128, 127).to(torch.int8)",
        solution=lambda x: (x.float() / scale_of(x.float(), 127)).round().clamp(-128, 127).to(torch.int8),
        inputs="torch.randn(32, 256).bfloat16()",
    ),
    "mask of normalised rows": Example(
        body="return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True) > 0.5",
        solution=lambda x: x - x.mean(-1, keepdim=True) > 0.5 * x.std(-1, keepdim=True),
        inputs="torch.randn(32, 256)",
        differs=False,
    ),
    "mask of products": Example(
        body="return x @ y > 16",
        solution=lambda x, y: x[:, :8] @ y[:8] + x[:, 8:] @ y[8:] > 16,
        inputs="torch.randn(32, 16), torch.randn(16, 64).where(torch.arange(64) > 0, 0.1)",
        parameters="x, y",
        differs=False,
    ),
    "values behind a rounding": Example(
        body=SCALE.format(top=127) + "return (x / scale).round() * scale",
        solution=lambda x: (x * (1 / scale_of(x, 127))).round() * scale_of(x, 127),
        inputs=MIDDLES,
    ),
    "products behind a rounding": Example(
        body=SCALE.format(top=127) + "return (x / scale).round() @ w * scale",
        solution=lambda x, w: (x * (1 - 3e-7) / scale_of(x, 127)).round() @ w * scale_of(x, 127),
        inputs=MIDDLES.replace("0.5", "0.50001") + ", torch.randn(256, 48)",
        parameters="x, w",
    ),
    "fp8 of products": Example(
        body="y = x @ w + z\ns = y.abs().amax(-1, keepdim=True) / 448\nreturn (y / s).to(torch.float8_e4m3fn)",
        solution=lambda x, w, z: fp8_rows(x[:, :64] @ w[:64] + x[:, 64:] @ w[64:] + z),
        inputs="*cancelling(torch.randn(32, 128), torch.randn(128, 256))",
        parameters="x, w, z",
    ),
    "two codes in a byte": Example(
        body=SCALE.format(top=7)
        + "q = (x / scale).round().clamp(-8, 7).to(torch.int32) + 8\n"
        + "return (q[:, ::2] | q[:, 1::2] << 4).to(torch.uint8)",
        solution=lambda x: packed((x * (1 / scale_of(x, 7))).round().clamp(-8, 7).to(torch.int32) + 8),
        inputs="rows(torch.randint(0, 6, (16,)) + 0.5, 7).roll(1, -1)",
    ),
    "buckets": Example(
        body="return torch.bucketize(x, torch.linspace(-3, 3, 61))",
        solution=lambda x: ((x + 3) * 10).ceil().clamp(0, 61).long(),
        inputs="rows(torch.randn(16), 4).where(torch.arange(256) > 0, torch.randint(-20, 20, (32, 1)) / 10)",
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_honest_codes_are_right_in_each_draw_and_others_in_none(tmp_path, name) -> None:
    example = EXAMPLES[name]
    trial, differ = trial_of(tmp_path, example), 0
    for seed in range(DRAWS):
        trial.tally = Tally()
        assert is_right(trial, seed, example.solution), seed
        differ += trial.tally.boundary[0] > 0
        assert [note.code for note in trial.tally.notes()] == ["boundary_codes"] * (trial.tally.boundary[0] > 0)
        for chosen in (torch.rand(32, 256) < 0.01, torch.arange(32)[:, None] == seed % 32):

            def off(*given, chosen=chosen):
                right = example.solution(*given)
                return one_code_off(right, chosen[:, : right.shape[1]].expand(right.shape))

            assert not is_right(trial, seed, off), seed
    assert (differ > DRAWS / 2) or not example.differs


def test_where_many_values_lie_at_a_boundary_another_rounding_is_another_function(tmp_path) -> None:
    example = Example(
        body="return x.round()", solution=lambda x: (x + 0.5).floor(), inputs="torch.randn(32, 8).round() / 2"
    )
    assert not is_right(trial_of(tmp_path, example), 1, example.solution)


def test_an_exact_zero_lies_on_one_side_of_a_boundary(tmp_path) -> None:
    example = Example(body="return x + x.sign()", solution=lambda x: x + x.sign(), inputs="torch.randn(32, 256).relu()")
    trial = trial_of(tmp_path, example)
    assert is_right(trial, 1, example.solution)
    assert not is_right(trial, 1, lambda x: x + torch.where(x == x.flatten()[x.argmin()], 1.0, x.sign()))


def in_tiles(x: Tensor) -> Tensor:
    """Return where the largest sum is, of sums in two parts."""
    return (x[..., :100].sum(-1) + x[..., 100:].sum(-1)).argmax(-1)


def first_top(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the five largest values, of equal ones the first."""
    values, places = torch.sort(x, dim=-1, descending=True, stable=True)
    return values[..., :5], places[..., :5]


def last_of_windows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest of each 2 by 2 values and where it is, of equal ones the last."""
    values, places = torch.nn.functional.max_pool2d(x.flip(-1, -2), 2, return_indices=True)
    return values.flip(-1, -2), (x.shape[-1] * x.shape[-2] - 1 - places).flip(-1, -2)


CHOICES = {
    "top-k with ties": Example(
        body="return torch.topk(x, 5)",
        solution=first_top,
        inputs="(10 * torch.randn(64, 100)).round() / 10",
    ),
    "argmax of sums": Example(
        body="return x.sum(-1).argmax(-1)",
        solution=in_tiles,
        inputs="alike(torch.randn(32, 40, 300))",
    ),
    "argmax of all": Example(
        body="return (x * 3).argmax()",
        solution=lambda x: (x / (1 / 3)).flatten().flip(0).argmax().neg() + x.numel() - 1,
        inputs="torch.where(torch.rand(64, 100) < 0.001, 1000, torch.randint(0, 999, (64, 100))) / 7",
    ),
    "largest of each window": Example(
        body="return torch.nn.functional.max_pool2d(x, 2, return_indices=True)",
        solution=last_of_windows,
        inputs="torch.randn(4, 3, 32, 32).mul(4).round()",
    ),
    "order, as int32": Example(
        body="return x.argsort(-1).int()",
        solution=lambda x: (99 - torch.sort(x.flip(-1), dim=-1, stable=True).indices).int(),
        inputs="(10 * torch.randn(64, 100)).round() / 10",
    ),
    "best class by bf16": Example(
        body="return (x @ y).argmax(-1)",
        solution=lambda x, y: (x.float() @ y.float()).argmax(-1),
        inputs="torch.randn(64, 128).bfloat16(), torch.randn(128, 200).bfloat16()",
        parameters="x, y",
        differs=False,
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_an_index_of_a_value_as_good_is_right_and_of_another_is_not(tmp_path, name) -> None:
    example = CHOICES[name]
    trial, differ = trial_of(tmp_path, example), 0
    for seed in range(DRAWS):
        trial.tally = Tally()
        assert is_right(trial, seed, example.solution), seed
        differ += trial.tally.picks > 0
        for wrong in (torch.zeros_like, lambda picks: (picks + 5) % 40, lambda picks: picks - 99_999):

            def other(*given, wrong=wrong):
                right = example.solution(*given)
                return (right[0], wrong(right[1])) if isinstance(right, tuple) else wrong(right)

            assert not is_right(trial, seed, other), seed
    assert (differ > DRAWS / 2) or not example.differs
