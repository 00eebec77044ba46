"""Outputs behind a rounding, a comparison or a choice: honest code is right in each draw, a wrong code in none."""

import textwrap
from typing import Any

import pytest
import torch
from torch import Tensor

from kbench.judge.exchange import Tally, Trial
from kbench.judge.reference.reference import Reference
from kbench.numerics import codes

DRAWS = 50


def reference(folder, body: str, inputs: str, parameters: str = "x") -> Reference:
    path = folder / "problem.py"
    path.write_text(
        "import torch\nclass Model(torch.nn.Module):\n"
        f"    def forward(self, {parameters}):\n{textwrap.indent(textwrap.dedent(body).strip(), ' ' * 8)}\n"
        f"def get_inputs():\n    return {inputs}\ndef get_init_inputs():\n    return []\n"
    )
    return Reference(path, {}, "cpu", allow_tf32=False)


def trial_of(found: Reference) -> Any:
    trial: Any = object.__new__(Trial)
    trial.reference, trial.tally, trial.earlier = found, Tally(), []
    return trial


def is_right(trial: Any, seed: int, solution) -> bool:
    expected = trial.reference.expect(trial.reference.arguments(seed))
    given = solution(*[a.clone() for a in expected.arguments])
    ruling, _ = trial.compare(list(given) if isinstance(given, tuple) else [given], expected, None)
    return ruling.right


def one_code_up(values: Tensor, share: float) -> Tensor:
    """Return codes of which this share is one code further from zero, wherever they lie."""
    word = values.clone()
    raw = word.view(torch.uint8) if word.dtype.itemsize == 1 else word
    chosen = torch.rand(values.shape) < share
    if values.dtype == torch.bool:
        return values ^ chosen
    moved = raw ^ 1 if codes.is_float8(values.dtype) else torch.where(values.long() > 0, raw - 1, raw + 1)
    raw[chosen] = moved.to(raw.dtype)[chosen]
    return word


SCALE = "scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / {top}\n"
ROWS = "[torch.randn(64, 256)]"


def scale_of(x: Tensor, top: float) -> Tensor:
    return x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / top


def half_away(v: Tensor) -> Tensor:
    return v.sign() * (v.abs() + 0.5).floor()


def float8(dtype: str, top: float):
    body = SCALE.format(top=top) + f"return (x / scale).clamp(-{top}, {top}).to(torch.{dtype})"
    return body, lambda x: (x * (1 / scale_of(x, top))).clamp(-top, top).to(getattr(torch, dtype))


def sums(x: Tensor) -> Tensor:
    return x[..., :100].sum(-1) + x[..., 100:].sum(-1)


INT8 = SCALE.format(top=127.0) + "return (x / scale).round().clamp(-128, 127).to(torch.int8)"
UINT8 = "low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)\n" + (
    "scale = (high - low) / 255\nreturn ((x - low) / scale).round().clamp(0, 255).to(torch.uint8)"
)
SPREAD = "[torch.randn(64, 40, 300)]"


def unsigned(x: Tensor) -> Tensor:
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    return ((x - low) * (255 / (high - low))).round().clamp(0, 255).to(torch.uint8)


def by_formula(x: Tensor) -> Tensor:
    """Return the bucket of each value among 63 boundaries that are 0.1 apart."""
    return ((x + 3.1) * 10).ceil().clamp(0, 63).long()


EXAMPLES = {
    "fp8 e4m3 by reciprocal": (*float8("float8_e4m3fn", 448.0), ROWS),
    "fp8 e5m2 by reciprocal": (*float8("float8_e5m2", 57344.0), ROWS),
    "int8 by reciprocal": (INT8, lambda x: (x * (1 / scale_of(x, 127.0))).round().clamp(-128, 127).char(), ROWS),
    "int8 half away from zero": (INT8, lambda x: half_away(x / scale_of(x, 127.0)).clamp(-128, 127).char(), ROWS),
    "int8 half even for half away": (
        SCALE.format(top=127.0) + "v = x / scale\nreturn (v.sign() * (v.abs() + 0.5).floor()).to(torch.int8)",
        lambda x: (x * (127.0 / x.abs().amax(-1, keepdim=True))).round().char(),
        ROWS,
    ),
    "int8 cut off": (
        SCALE.format(top=127.0) + "return (x / scale).to(torch.int8)",
        lambda x: (x * (1 / scale_of(x, 127.0) * (1 - 1e-7))).to(torch.int8),
        ROWS,
    ),
    "uint8 by reciprocal": (UINT8, unsigned, ROWS),
    "int8 of bf16": (
        "s = (x.abs().amax(-1, keepdim=True) / 127)\nreturn (x / s).round().clamp(-128, 127).to(torch.int8)",
        lambda x: (x.float() / (x.float().abs().amax(-1, keepdim=True) / 127)).round().clamp(-128, 127).char(),
        "[torch.randn(64, 256).bfloat16()]",
    ),
    "mask of normalised rows": (
        "return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True) > 0.5",
        lambda x: x > sums(x)[..., None] / x.shape[-1] + 0.5 * x.double().std(-1, keepdim=True).float(),
        ROWS,
    ),
    "mask of products": (
        "return x @ y > 3",
        lambda x, y: x[:, :100] @ y[:100] + x[:, 100:] @ y[100:] > 3,
        "[torch.randn(64, 512), torch.randn(512, 64)]",
    ),
    "buckets": ("return torch.bucketize(x, torch.arange(63) / 10 - 3.1)", by_formula, ROWS),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_honest_codes_are_right_in_each_draw_and_others_in_none(tmp_path, name) -> None:
    body, solution, inputs = EXAMPLES[name]
    trial = trial_of(reference(tmp_path, body, inputs, "x, y" if "y)" in inputs or name == "mask of products" else "x"))
    differ = 0
    for seed in range(DRAWS):
        assert is_right(trial, seed, solution), (name, seed)
        differ += trial.tally.boundary[0] > 0
        assert not is_right(trial, seed, lambda *given: one_code_up(solution(*given), 0.01)), (name, seed)
    assert trial.tally.boundary[0] <= trial.tally.boundary[1] / 100 or "bf16" in name
