"""Other values of the inputs: what each variation keeps, and to which tensors it can be applied."""

import pytest
import torch

from kbench.judge.reference.drawing import is_value, jittered, transformed
from kbench.judge.verify.variations import (
    RESEMBLING,
    SCALE_DOWN,
    SCALE_UP,
    VARIATIONS,
    changed_in_places,
    kept_at_samples,
    mixed,
    spiked,
)

torch.manual_seed(0)  # of a mean near zero, fp8 would not change
VALUES = {
    "fp32": torch.randn(6, 5, 4, 3),
    "bf16": torch.randn(6, 5).bfloat16(),
    "fp8": torch.randn(6, 5).to(torch.float8_e4m3fn),
    "fp8 with infinities": torch.randn(6, 5).to(torch.float8_e5m2),
    "complex": torch.randn(6, 5, dtype=torch.complex64),
    "scalar": torch.randn(()),
    "empty": torch.randn(0, 3),
}


APPLICABLE = [
    pytest.param(kind, variation, id=f"{kind}, {variation.name}")
    for kind, x in VALUES.items()
    for variation in VARIATIONS
    if variation.applies(x)
]


@pytest.mark.parametrize(("kind", "variation"), APPLICABLE)
def test_a_variation_keeps_shape_and_dtype_and_changes_values(kind, variation) -> None:
    x = VALUES[kind]
    y = transformed(x, variation.transform)
    assert (y.shape, y.dtype, y.device) == (x.shape, x.dtype, x.device)
    same = kind in {"scalar", "empty"} or (kind.startswith("fp8") and variation.name == "denormals")
    assert same or not torch.equal(y.to(torch.complex64), x.to(torch.complex64))


@pytest.mark.parametrize("variation", [v for v in VARIATIONS if v.applies(torch.ones(9, 9))], ids=lambda v: v.name)
def test_a_triangle_stays_one(variation) -> None:
    x = torch.randn(9, 9).triu()
    assert torch.equal(transformed(x, variation.transform).tril(-1), torch.zeros(9, 9))


@pytest.mark.parametrize("kind", ["fp32", "fp8", "complex"])
def test_values_of_every_precision_are_values(kind) -> None:
    assert is_value(VALUES[kind])
    torch.manual_seed(0)
    assert not torch.equal(transformed(VALUES[kind], jittered).to(torch.complex64), VALUES[kind].to(torch.complex64))


@pytest.mark.parametrize(
    ("entries", "low"), [(2, SCALE_DOWN), (6, SCALE_DOWN), (512, SCALE_DOWN), (4096, SCALE_UP / 8192)]
)
@pytest.mark.parametrize("dimension", [0, 1])
def test_one_entry_is_scaled_up_and_all_others_down(entries, low, dimension) -> None:
    shape = [4, 4]
    shape[dimension] = entries
    factors = spiked(dimension, torch.ones(shape)).select(1 - dimension, 0)
    assert sorted(factors.tolist()) == [low] * (entries - 1) + [SCALE_UP]


@pytest.mark.parametrize("every", [2, 8, 64])
def test_no_sample_of_the_rows_stands_for_all(every) -> None:
    """A mean over one row in so many is far from the mean of all, wherever the spike is."""
    for seed in range(200):
        torch.manual_seed(seed)
        x = spiked(0, torch.rand(4096, 16) + 0.5)
        whole, sample = x.mean(), x[::every].mean()
        assert abs(sample - whole) > 0.1 * whole


def test_a_symmetric_matrix_stays_symmetric_and_definite() -> None:
    a = torch.randn(3, 8, 8)
    a = a @ a.mT + 8 * torch.eye(8)
    for dimension in (1, 2):
        b = spiked(dimension, a)
        assert torch.equal(b, b.mT)
        torch.linalg.cholesky(b)


def test_mixed_inputs_are_of_every_kind_by_rows() -> None:
    x = torch.rand(60, 5) + 1
    seen = set()
    for _ in range(20):
        parts = [(part.sign().min().item(), (part / was).mean().item()) for part, was in pairs(mixed(x), x)]
        assert len(set(parts)) == 6, "each sixth is changed in another way"
        assert sum(ratio == -1 for _, ratio in parts) == 1
        assert sum(ratio == SCALE_UP for _, ratio in parts) == 1
        seen.add(tuple(sign for sign, _ in parts))
    assert len(seen) > 1, "in an order of their own"


def pairs(y: torch.Tensor, x: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return list(zip(y.tensor_split(6), x.tensor_split(6), strict=True))


@pytest.mark.parametrize("shape", [(), (1,), (5, 8), (6, 1), (7, 3, 2), (0, 3)])
def test_mixed_inputs_follow_the_seed_whatever_the_shape(shape) -> None:
    x = torch.rand(shape)
    drawn = []
    for seed in (1, 1, 2, 3, 4, 5):
        torch.manual_seed(seed)
        drawn.append(mixed(x))
    assert all(y.shape == x.shape and y.dtype == x.dtype for y in drawn)
    assert torch.equal(drawn[0], drawn[1])
    assert not x.numel() or any(not torch.equal(drawn[0], y) for y in drawn[2:])


@pytest.mark.parametrize("shape", [(4096,), (64, 300), (3, 7, 11, 13), (1, 1 << 20)])
def test_few_samples_cannot_tell_the_next_inputs_from_the_last(shape) -> None:
    x = torch.randn(shape)
    y = kept_at_samples(x)
    one, other = x.flatten(), y.flatten()
    most = x.numel() // 16
    for samples in (4, 8, 10, 16, 32, 64, 100, 128, 256, 512, 1000, 1024):
        if samples <= most:
            assert torch.equal(one[:: len(one) // samples], other[:: len(one) // samples]), samples
    assert torch.equal(one[: min(16, most)], other[: min(16, most)])
    assert torch.equal(one[-min(16, most) :], other[-min(16, most) :])
    assert (one != other).double().mean() > 0.4


def test_a_few_places_change_that_few_samples_meet_seldom() -> None:
    torch.manual_seed(0)
    x = torch.randn(32, 500)
    met = 0
    for _ in range(200):
        changed = (changed_in_places(x) != x).flatten().nonzero().flatten()
        assert 1 <= len(changed) <= 8
        met += bool(torch.isin(torch.randperm(x.numel())[:8], changed).any())
    assert met <= 5
    assert changed_in_places(x).abs().max() <= x.abs().max(), "no value is larger than the problem's own"


@pytest.mark.parametrize("variation", RESEMBLING, ids=lambda variation: variation.name)
@pytest.mark.parametrize("kind", ["bf16", "complex", "fp8"])
def test_what_resembles_has_the_same_shape_dtype_and_strides(kind, variation) -> None:
    x = torch.cat([VALUES[kind].float() if kind == "fp8" else VALUES[kind]] * 20).to(VALUES[kind].dtype).mT
    assert variation.applies(x)
    y = transformed(x, variation.transform)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    assert not torch.equal(y.to(torch.complex64), x.to(torch.complex64))


def test_what_is_small_is_not_taken_samples_of() -> None:
    assert not any(variation.applies(torch.randn(100)) for variation in RESEMBLING)
