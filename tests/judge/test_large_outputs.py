"""Large outputs: entries in which elements miss the contract are judged by fp64, here at a small size."""

from typing import Any

import pytest
import tiny_corpus
import torch
from torch import Tensor

from kbench.judge.comparison import Tally, Truth
from kbench.judge.exchange import Trial
from kbench.judge.reference.reference import Reference

DRAWS = 2
PROBLEMS = {
    "einsum": ('torch.einsum("bijl,lk->bijk", a, w)', (16, 4, 16, 768), (768, 128)),
    "matmul": ("a @ w", (512, 768), (768, 256)),
    "square": ("a @ w", (512, 512), (512, 512)),
    "short sums": ("a @ w", (256, 48), (48, 64)),
    "long sums": ("a @ w", (128, 4096), (4096, 128)),
    "bmm": ("torch.bmm(a, w)", (16, 64, 768), (16, 768, 128)),
}
LARGE = {
    "einsum": ((16, 64, 128, 768), (768, 768)),
    "matmul": ((10_240, 1024), (1024, 10_240)),
    "square": ((10_240, 10_240), (10_240, 10_240)),
    "bmm": ((64, 1280, 512), (64, 512, 1280)),
}
"""Operands of products with 1e8 elements."""


def trial_of(folder, name: str, device: str = "cpu", **options: Any) -> Any:
    product, *sizes = PROBLEMS[name]
    left, right = sizes if device == "cpu" else LARGE[name]
    path = folder / "problem.py"
    path.write_text(tiny_corpus.problem(product, given=f"torch.randn{left}, torch.randn{right}", inputs="a, w"))
    trial: Any = object.__new__(Trial)
    trial.reference = Reference(path, {}, device, allow_tf32=False, **options)
    trial.tally, trial.earlier = Tally(), []
    return trial


def split(a: Tensor, w: Tensor) -> Tensor:
    half = a.shape[-1] // 3
    return a[..., :half] @ w[..., :half, :] + a[..., half:] @ w[..., half:, :]


def rounded(bits: int):
    def product(a: Tensor, w: Tensor) -> Tensor:
        step = 1 << (23 - bits)
        mine, other = [((t.view(torch.int32) + step // 2) & -step).view(torch.float32) for t in (a, w)]
        return mine @ other

    return product


def wrong_tail(change: float, size: int = 1):
    def product(a: Tensor, w: Tensor) -> Tensor:
        found = split(a, w)
        found[(-1,) * (found.dim() - 1)][-size:] *= 1 + change
        return found

    return product


HONEST = {
    "split": split,
    "backwards": lambda a, w: a.flip(-1) @ w.flip(-2),
    "in eight parts": lambda a, w: sum(x @ y for x, y in zip(a.chunk(8, -1), w.chunk(8, -2), strict=True)),
}
WRONG = {
    "tf32": rounded(10),
    "bf16": rounded(7),
    "fp16": lambda a, w: (a.half() @ w.half()).float(),
    "tf32 in one entry": lambda a, w: torch.cat([split(a, w)[:-1], rounded(10)(a, w)[-1:]]),
    "a wrong tail": wrong_tail(1e-2, 16),
    "a slightly wrong tail": wrong_tail(3e-4, 64),
    "one wrong element": wrong_tail(0.1),
    "an unwritten tail": wrong_tail(-1.0, 4),
}


def ruling_of(trial: Any, seed: int, solution) -> Any:
    expected = trial.reference.expect(trial.reference.arguments(seed))
    truth = Truth.of(trial.reference, expected) if seed % 2 else None  # as of a call that is to be judged by fp64
    return trial.compare([solution(*[a.clone() for a in expected.arguments])], expected, truth).ruling


@pytest.mark.parametrize("name", ["einsum", "bmm", "long sums"])
def test_fp32_products_are_right_at_any_size_and_shorter_types_and_wrong_tails_are_not(tmp_path, name) -> None:
    trial = trial_of(tmp_path, name, oracle_elements=1 << 12)
    for seed in range(DRAWS):
        for words, solution in HONEST.items():
            assert ruling_of(trial, seed, solution).right, (words, seed)
        for words, solution in WRONG.items():
            assert not ruling_of(trial, seed, solution).right, (words, seed)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", LARGE)
def test_products_of_1e8_elements_are_judged_alike(tmp_path, name) -> None:
    trial = trial_of(tmp_path, name, "cuda")
    for words, solution in {**HONEST, "bmm": torch.bmm if name == "bmm" else torch.matmul}.items():
        assert ruling_of(trial, 1, solution).right, words
    for words, solution in WRONG.items():
        assert not ruling_of(trial, 1, solution).right, words


def test_an_element_within_the_tolerance_of_fp64_is_right_though_it_misses_the_contract(tmp_path) -> None:
    """The reference is 0.2 to 0.5 tolerances from fp64 there, and the candidate 0.9 on the other side."""
    trial = trial_of(tmp_path, "short sums", oracle_elements=1 << 12)
    expected = trial.reference.expect(trial.reference.arguments(0))
    want = expected.tensors[0]
    exact = expected.arguments[0].double() @ expected.arguments[1].double()
    allowed = 1e-5 + 1e-5 * exact.abs()
    error = (want - exact) / allowed
    place = int(error.abs().argmax())
    for away, right in ((0.9, True), (1.2, False)):
        got = want.clone()
        got.view(-1)[place] = (exact - away * error.sign() * allowed).view(-1)[place]
        found = trial.compare([got], expected)
        assert 1 < found.differences[0].ratio < 2
        assert (found.ruling.right, found.ruling.contract) == (right, "unattainable" if right else "held")


def test_a_place_that_is_wrong_by_fp64_is_named_in_the_whole_output(tmp_path) -> None:
    trial = trial_of(tmp_path, "matmul", oracle_elements=1 << 12)
    expected = trial.reference.expect(trial.reference.arguments(1))
    got = expected.tensors[0].clone()
    got[300, 7] += 1e-2
    truth = Truth.of(trial.reference, expected, [got])
    tolerance = trial.reference.tolerance(got)
    (place,) = truth.furthest(got, 0, tolerance, "output")
    assert place.index == (300, 7)
