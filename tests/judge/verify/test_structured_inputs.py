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


def skew() -> torch.Tensor:
    a = torch.randn(N, N)
    return a - a.T


def values(rows: int = N, columns: int = 32) -> torch.Tensor:
    return torch.randn(rows, columns)


def unit(rows: int = N) -> torch.Tensor:
    return functional.normalize(values(rows), dim=-1)


def halves() -> torch.Tensor:
    angles = torch.randn(N, 16)
    return torch.cat((angles, angles), -1).cos()


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
    "log of a determinant": (
        lambda: [definite()],
        lambda a: torch.linalg.slogdet(a)[1],
        [
            lambda a: 2 * torch.linalg.cholesky(a).diagonal().log().sum(),
            lambda a: torch.linalg.eigvalsh(a).log().sum(),
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
    "diagonal": (
        lambda: [torch.diag(torch.randn(N)), values()],
        lambda a, b: a @ b,
        [lambda a, b: a.diagonal()[:, None] * b, lambda a, b: a.sum(1, keepdim=True) * b],
    ),
    "skew": (
        lambda: [skew(), values()],
        lambda a, b: a @ b,
        [lambda a, b: a.triu(1) @ b - a.triu(1).T @ b, lambda a, b: -(a.T @ b)],
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
    "logarithms": (
        lambda: [values(N, N).log_softmax(-1)],
        lambda p: p - p.logsumexp(-1, keepdim=True),
        [lambda p: p, lambda p: p.clone()],
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
    "equal halves": (
        lambda: [values(), halves()],
        lambda x, c: x * c,
        [
            lambda x, c: torch.cat((x[:, :16] * c[:, :16], x[:, 16:] * c[:, :16]), -1),
            lambda x, c: x * c[:, 16:].repeat(1, 2),
        ],
    ),
    "repeated heads": (
        lambda: [torch.randn(2, 4, 6).repeat_interleave(3, 1), torch.randn(2, 12, 6)],
        lambda k, q: k * q,
        [
            lambda k, q: k[:, ::3].repeat_interleave(3, 1) * q,
            lambda k, q: (k[:, 2::3, None] * q.view(2, 4, 3, 6)).flatten(1, 2),
        ],
    ),
    "one of the diagonals": (
        lambda: [torch.randn(2 * N - 1)[DIAGONALS], values()],
        lambda a, b: a @ b,
        [
            lambda a, b: torch.cat((a[0].flip(0), a[1:, 0]))[DIAGONALS] @ b,
            lambda a, b: torch.cat((a[:-1, -1], a[-1].flip(0)))[DIAGONALS] @ b,
        ],
    ),
    "scales of blocks": (
        lambda: [values(), (torch.rand(6, 4) + 0.5).repeat_interleave(4, 0).repeat_interleave(8, 1)],
        lambda x, s: x * s,
        [
            lambda x, s: x * s[::4, ::8].repeat_interleave(4, 0).repeat_interleave(8, 1),
            lambda x, s: (x.view(6, 4, 4, 8) * s[3::4, None, 7::8, None]).view(x.shape),
        ],
    ),
    "channels with the sum 1": (
        lambda: [torch.randn(3, 5, 4, 4).softmax(1), torch.randn(3, 5, 4, 4)],
        lambda p, v: (p * v).sum(1) / p.sum(1),
        [lambda p, v: (p * v).sum(1), lambda p, v: torch.einsum("bchw,bchw->bhw", p, v)],
    ),
    "columns of norm 1": (
        lambda: [functional.normalize(values(), dim=0)],
        lambda a: a / a.norm(dim=0),
        [lambda a: a.clone(), lambda a: a * 1],
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
    "orthonormal rows": (
        lambda: [torch.linalg.qr(torch.randn(N, 8)).Q.T.contiguous(), values(8)],
        lambda q, b: torch.linalg.solve(q @ q.T, b),
        [lambda q, b: b.clone(), lambda q, b: q @ (q.T @ b)],
    ),
    "one input three times": (
        lambda: [values()] * 3,
        lambda q, k, v: (q @ k.T) @ v,
        [lambda q, k, v: (q @ q.T) @ q, lambda q, k, v: v @ (k.T @ q)],
    ),
    "an input and its copy": (
        lambda: [one := values(), one.clone()],
        lambda q, k: q @ k.T,
        [lambda q, k: q @ q.T, lambda q, k: (k @ q.T).T],
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
        "logarithms",
        "unit rows",
        "orthonormal",
        "rows of mean 0",
    ),
    *("channels with the sum 1", "columns of norm 1", "orthonormal rows"),
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
            made = inputs.changed(inputs.draw(seed), variation.transform, variation.applies)
            given = [leaf.double() for leaf in made]
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
        ["symmetric", "of elements that equal others"],
    ),
    "Toeplitz of 8": (lambda: torch.randn(16)[DIAGONALS[:8, :8] - N + 9], ["of elements that equal others"]),
    "triangular, with a zero by chance": (lambda: with_a_zero(torch.randn(64, 64).triu()), ["zero in the same places"]),
    "mostly ones": (lambda: torch.where(torch.rand(64, 64) < 0.9, 1.0, 0.0), ["whole numbers"]),
    "mostly zeros": (lambda: torch.where(torch.rand(64, 64) < 0.1, 1.0, 0.0), ["whole numbers"]),
    "nothing": (lambda: torch.randn(N, N), []),
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
