"""Other values of the inputs: what each variation keeps, and to which tensors it can be applied."""

import pytest
import torch

from kbench.core.model import FindingKind
from kbench.isolation.inputs import is_value, jittered, transformed
from kbench.isolation.variations import (
    SCALE_DOWN,
    SCALE_UP,
    SEMANTIC_VARIATIONS,
    SPIKED,
    VARIATIONS,
    at_full_size,
    spiked,
)

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
    pytest.param(kind, variation, id=f"{kind}, {variation.code}")
    for kind, x in VALUES.items()
    for variation in VARIATIONS
    if variation.applies(x)
]


@pytest.mark.parametrize(("kind", "variation"), APPLICABLE)
def test_a_variation_keeps_shape_and_dtype_and_changes_values(kind, variation) -> None:
    x = VALUES[kind]
    y = transformed(x, variation.transform)
    assert (y.shape, y.dtype, y.device) == (x.shape, x.dtype, x.device)
    same = kind in {"scalar", "empty"} or (kind.startswith("fp8") and variation.code == "denormals")
    assert same or not torch.equal(y.to(torch.complex64), x.to(torch.complex64))


@pytest.mark.parametrize("kind", ["fp32", "fp8", "complex"])
def test_values_of_every_precision_are_values(kind) -> None:
    assert is_value(VALUES[kind])
    torch.manual_seed(0)
    assert not torch.equal(jittered(VALUES[kind]).to(torch.complex64), VALUES[kind].to(torch.complex64))


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


def test_full_size_goes_through_the_spikes_of_one_dimension() -> None:
    chosen = [at_full_size() for _ in range(100)]
    assert all(set(some) <= set(SEMANTIC_VARIATIONS) for some in chosen)
    assert {len(set(SPIKED) & set(some)) for some in chosen} == {1}
    assert {one for some in chosen for one in set(SPIKED) & set(some)} == set(SPIKED)
    assert all(variation.kind is FindingKind.SEMANTICS for variation in SPIKED)
