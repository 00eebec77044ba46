"""Problems whose inputs have structure in every draw, and solutions that rely on it: no variation may break it."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import functional

from kbench.judge.reference import structure
from kbench.judge.reference.drawing import Inputs
from kbench.judge.verify.variations import IN_FEW_PLACES, MIXED, RESEMBLING, VARIATIONS

N = 24
DIAGONALS = torch.arange(N)[:, None] - torch.arange(N) + N - 1


def symmetric(n: int = N) -> torch.Tensor:
    a = torch.randn(n, n)
    return (a + a.T) / 2


def definite(n: int = N) -> torch.Tensor:
    a = torch.randn(n, n)
    return a @ a.T / n + torch.eye(n)


def values(rows: int = N, columns: int = 32) -> torch.Tensor:
    return torch.randn(rows, columns)


def unit(rows: int = N) -> torch.Tensor:
    return functional.normalize(values(rows), dim=-1)


def beside(x: torch.Tensor, *others: Any) -> list[torch.Tensor]:
    return [x, *(of(x) for of in others)]


def boxes(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.cat((torch.minimum(one, other), torch.maximum(one, other)), -1)


def upper_half_mirrored(a: torch.Tensor) -> torch.Tensor:
    return a.triu() + a.triu(1).mT


def matched(keys: torch.Tensor, sought: torch.Tensor) -> torch.Tensor:
    return (keys[None] <= sought.flatten()[:, None]).sum(-1)


PROBLEMS: dict[str, tuple[Any, Any, list[Any]]] = {
    # name: what is drawn, the reference, solutions that rely on the structure
    "symmetric": (
        lambda: [symmetric(), values()],
        lambda a, b: a @ b,
        [lambda a, b: upper_half_mirrored(a) @ b, lambda a, b: (a.tril() + a.tril(-1).mT) @ b],
    ),
    "positive definite": (
        lambda: [definite(), values()],
        torch.linalg.solve,
        [
            lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(a)),
            lambda a, b: torch.linalg.ldl_solve(*torch.linalg.ldl_factor(a), b),
        ],
    ),
    "lower triangle": (
        lambda: [values(N, N).tril(), values()],
        lambda a, b: a @ b,
        [
            lambda a, b: torch.stack([a[i, : i + 1] @ b[: i + 1] for i in range(len(a))]),
            lambda a, b: a.tril() @ b,
        ],
    ),
    "sorted": (
        lambda: [torch.randn(64).sort().values, values()],
        matched,
        [
            lambda keys, x: torch.searchsorted(keys, x.flatten(), right=True),
            lambda keys, x: torch.bucketize(x.flatten(), keys, right=True),
        ],
    ),
    "rows with the sum 1": (
        lambda: [values(N, N).softmax(-1), values()],
        lambda p, v: (p @ v) / p.sum(-1, keepdim=True),
        [lambda p, v: p @ v, lambda p, v: v[:1] + p @ (v - v[:1])],
    ),
    "positive rows with the sum 1": (
        lambda: [values(N, N), values(N, N).softmax(-1)],
        lambda x, q: (torch.xlogy(q, q) - q * x.log_softmax(-1)).sum(-1),
        [
            lambda x, q: (q * (q.log() - x.log_softmax(-1))).sum(-1),
            lambda x, q: (q * (q.log() - x)).sum(-1) + x.logsumexp(-1),
        ],
    ),
    "unit rows": (
        lambda: [unit(), unit()],
        lambda a, b: functional.cosine_similarity(a[:, None], b[None], dim=-1),
        [lambda a, b: a @ b.T, lambda a, b: 1 - torch.cdist(a, b).square() / 2],
    ),
    "orthonormal": (
        lambda: [torch.linalg.qr(torch.randn(N, N)).Q, values()],
        torch.linalg.solve,
        [lambda q, b: q.T @ b, lambda q, b: (b.T @ q).T],
    ),
    "channels with the sum 1": (
        lambda: [torch.randn(3, 5, 4, 4).softmax(1), torch.randn(3, 5, 4, 4)],
        lambda p, v: (p * v).sum(1) / p.sum(1),
        [lambda p, v: (p * v).sum(1), lambda p, v: torch.einsum("bchw,bchw->bhw", p, v)],
    ),
    "rows of mean 0": (
        lambda: [functional.layer_norm(values(N, 64), (64,))],
        lambda x: x.var(-1, unbiased=False),
        [lambda x: x.square().mean(-1), lambda x: x.norm(dim=-1).square() / 64],
    ),
    "times along the first dimension": (
        lambda: [torch.rand(64, 1).cumsum(0), values(1)],
        lambda t, x: (t <= x).sum(0),
        [lambda t, x: torch.searchsorted(t[:, 0].contiguous(), x[0], right=True), lambda t, x: (x >= t).sum(0)],
    ),
    "one input three times": (
        lambda: [values()] * 3,
        lambda q, k, v: (q @ k.T) @ v,
        [lambda q, k, v: (q @ q.T) @ q, lambda q, k, v: v @ (k.T @ q)],
    ),
    "a matrix beside its transpose": (
        lambda: beside(values(N, N), lambda a: a.T.contiguous()),
        lambda a, b: a @ b,
        [lambda a, b: a @ a.T, lambda a, b: b.T @ b],
    ),
    "values beside their mean and norm": (
        lambda: beside(values(), lambda x: x.mean(-1, keepdim=True), lambda x: x.norm(dim=-1, keepdim=True)),
        lambda x, mean, norm: (x - mean) / norm,
        [
            lambda x, mean, norm: (x - x.mean(-1, keepdim=True)) / norm,
            lambda x, mean, norm: (x - mean) / x.norm(dim=-1, keepdim=True),
        ],
    ),
    "cosines beside sines": (
        lambda: [(angles := values()).cos(), angles.sin()],
        lambda c, s: c * c + s * s + c,
        [lambda c, s: 1 + c, lambda c, s: c + 1],
    ),
    "planes with the sum 1": (
        lambda: [torch.randn(3, 5, 16).softmax(-1).view(3, 5, 4, 4), torch.randn(3, 5, 4, 4)],
        lambda p, v: (p * v).sum((2, 3)) / p.sum((2, 3)),
        [lambda p, v: (p * v).sum((2, 3)), lambda p, v: torch.einsum("bchw,bchw->bc", p, v)],
    ),
    "corners of boxes": (
        lambda: [boxes(values(96, 2), values(96, 2))],
        lambda b: (b[:, 2] - b[:, 0]).relu() * (b[:, 3] - b[:, 1]).relu(),
        [lambda b: (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1]), lambda b: (b[:, 2:] - b[:, :2]).prod(-1)],
    ),
    "spectrum of real values": (
        lambda: [torch.fft.fft(values())],
        lambda z: torch.fft.ifft(z).real,
        [lambda z: torch.fft.irfft(z[:, :17], n=32), lambda z: torch.fft.ifft(z.mH.mH).real],
    ),
    "one of a row": (
        lambda: [functional.one_hot(torch.randint(16, (N,)), 16).float(), values(16)],
        lambda h, t: h @ t,
        [lambda h, t: t[h.argmax(-1)], lambda h, t: t[h.nonzero()[:, 1]]],
    ),
    "codes of a table": (
        lambda: [torch.randint(-1, 2, (N, 32)).float(), values(32)],
        lambda w, x: w @ x,
        [
            lambda w, x: (w > 0).to(x) @ x - (w < 0).to(x) @ x,
            lambda w, x: w.sign() @ x,
        ],
    ),
    "whole numbers": (
        lambda: [torch.randint(-100, 100, (N, 32)).float(), values(32)],
        lambda w, x: w @ x,
        [lambda w, x: w.to(torch.int64).to(x) @ x, lambda w, x: w.round() @ x],
    ),
}
NEAR = {
    *(
        "rows with the sum 1",
        "positive rows with the sum 1",
        "unit rows",
        "orthonormal",
        "rows of mean 0",
    ),
    *("channels with the sum 1", "planes with the sum 1", "cosines beside sines"),
}
"""What holds as far as fp32 goes only."""


def drawn(make: Any, seed: int) -> list[Any]:
    torch.manual_seed(seed)
    return make()


@pytest.mark.parametrize("name", PROBLEMS)
def test_solutions_that_rely_on_structure_are_right_on_every_variation(name: str) -> None:
    make, reference, solutions = PROBLEMS[name]
    inputs = Inputs(SimpleNamespace(inputs=lambda seed: drawn(make, seed)))
    decided = set()
    for variation in (*VARIATIONS, MIXED, *RESEMBLING, *IN_FEW_PLACES):
        if variation.name.startswith("planted") or not inputs.varies(variation.transform, variation.applies):
            continue
        for seed in range(3):
            made = inputs.draw(seed, variation.transform, variation.applies)
            given = [leaf.to(torch.promote_types(leaf.dtype, torch.float64)) for leaf in made]
            want = reference(*given)
            if not want.isfinite().all():
                continue
            decided.add(variation.name)
            for solution in solutions:
                scale = max(1.0, want.abs().max().item())
                off = (solution(*given) - want).abs().max() / scale
                assert off < (1e-2 if name in NEAR else 1e-5), (variation.name, off)
    assert len(decided) > 2, "structure is no reason to try nothing"


def with_a_zero(x: torch.Tensor) -> torch.Tensor:
    x[0, int(torch.randint(len(x), ()))] = 0
    return x


NAMES = {
    "symmetric": (lambda: (a := torch.randn(N, N)) + a.T, ["symmetric"]),
    "symmetric Toeplitz": (
        lambda: torch.randn(N)[(torch.arange(N)[:, None] - torch.arange(N)).abs()],
        ["symmetric"],
    ),
    "triangular, with a zero by chance": (lambda: with_a_zero(torch.randn(64, 64).triu()), ["zero in the same places"]),
    "mostly ones": (lambda: torch.where(torch.rand(64, 64) < 0.9, 1.0, 0.0), ["whole numbers"]),
    "mostly zeros": (lambda: torch.where(torch.rand(64, 64) < 0.1, 1.0, 0.0), ["whole numbers"]),
    "nothing": (lambda: torch.randn(N, N), []),
    "one row": (lambda: functional.normalize(torch.randn(64), dim=-1), ["of rows with the norm 1"]),
    "one row, equal in every draw": (lambda: torch.arange(1.0, 65.0).sin(), []),
    "rows, equal in every draw": (
        lambda: functional.normalize(torch.arange(1.0, 513.0).sin().view(8, 64), dim=-1),
        ["of rows with the norm 1"],
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_common_to_three_draws(name: str) -> None:
    make, names = NAMES[name]
    first, *others = (make() for _ in range(3))
    assert [found.name for found in structure.common(first, others)] == names


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(N, N),
        lambda: torch.rand(5, 3),
        lambda: torch.ones(N, N),
        lambda: torch.randn(4, 3, 8, 8),
        lambda: torch.randn(N, N).relu(),
        lambda: torch.rand(64),
        lambda: torch.randn(1, 1),
        lambda: torch.randn(()),
        lambda: torch.rand(64, 300).bfloat16(),
        lambda: torch.randn(64, 64).clamp(-1, 1),
        lambda: torch.randn(64, 64) * (torch.rand(64, 64) > 0.99),
    ],
)
def test_values_of_no_structure_are_varied_as_they_are(make: Any) -> None:
    assert not Inputs(SimpleNamespace(inputs=lambda seed: drawn(lambda: [make()], seed))).structures


def test_inputs_that_repeat_keep_their_structure_where_they_are_varied_here() -> None:
    inputs = Inputs(SimpleNamespace(inputs=lambda _seed: drawn(lambda: [symmetric()], 1)))
    inputs.vary(jitter=True)
    (one,), (other,) = (inputs.draw(seed) for seed in (1, 2))
    assert torch.equal(one, one.T)
    assert not torch.equal(one, other)


def test_what_cannot_keep_its_structure_stays_as_it_is_and_alone_is_no_variation() -> None:
    inputs = Inputs(SimpleNamespace(inputs=lambda seed: drawn(lambda: [definite()], seed)))
    negated, scaled = (next(v for v in VARIATIONS if v.name == code) for code in ("negated", "scaled_up"))
    assert not inputs.varies(negated.transform, negated.applies)
    assert inputs.varies(scaled.transform, scaled.applies)
