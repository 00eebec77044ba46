"""What fp64 says: when there is such a thing, of results and of what inputs are changed by."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from kbench.core.values import NARROW, Ratios, rule
from kbench.judge.comparison import Truth, against_oracle, change_errors
from kbench.judge.reference.oracle import Fp64Model, numbers
from kbench.numerics import elements


class Uncopied(nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, x):
        return x


class Applied(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def only_in_fp32(x):
    if x.dtype == torch.float32:
        y = x + 1
    return y


@pytest.mark.parametrize(
    ("model", "known"),
    [
        (Applied(lambda x: x + 1), True),
        (Applied(lambda x: x.sum().item()), True),
        (Applied(lambda x: {"sum": x.sum(), "mean": x.mean().item(), "count": 3}), True),
        (Applied(lambda x: (x > 0).to(torch.uint8).view(torch.int8)), True),
        (Applied(only_in_fp32), False),  # NameError
        (Applied(lambda x: (x.view(torch.int32) & -65536).view(torch.float32)), False),
        (Applied(lambda x: x.view(torch.int32).sum(1)), False),
        (Applied(lambda x: x[: x.element_size()]), False),  # another shape
        (Applied(lambda x: 1 / 0), False),
        (Uncopied(), False),
    ],
)
def test_there_is_an_oracle_where_the_model_means_the_same_in_fp64(model, known) -> None:
    x = torch.randn(16, 8)
    try:
        result = model(x)
    except ZeroDivisionError:
        result = x
    leaves = list(result.items()) if isinstance(result, dict) else [("output", result)]
    tensors = [leaf for _, leaf in leaves if isinstance(leaf, torch.Tensor)]
    found = Fp64Model(model).run([x], [], [*tensors, *numbers(leaves, torch.float32).values()])
    assert (found is not None) is known
    assert found is None or all(t.dtype in {torch.float64, torch.int8} for t in found)


def test_numbers_with_a_fraction_are_results_like_tensors() -> None:
    leaves = [("a", 0.5), ("b", 1 + 2j), ("c", 3), ("d", True), ("e", None), ("f", torch.ones(2))]
    found = numbers(leaves, torch.bfloat16)
    assert {path: (t.dtype, t.item()) for path, t in found.items()} == {
        "a": (torch.bfloat16, 0.5),
        "b": (torch.complex64, 1 + 2j),
    }


@pytest.mark.parametrize(
    ("forgets", "least", "most"),
    [
        (0.0, 0, 0.4),  # what the rounding of the parameter itself makes of its change
        (3e-7, 0, 1),
        (1e-6, 1.5, 3),
        (1e-5, 15, 30),
    ],
)
def test_the_change_of_an_input_is_held_against_the_truth_by_itself(forgets, least, most) -> None:
    torch.manual_seed(0)
    x, step = torch.randn(64, 64), torch.randn(64, 64)
    want, exact = x - 1e-4 * step, x.double() - 1e-4 * step.double()
    got = want + forgets * x
    tolerance = elements.tolerance_for(torch.float32)
    ours, theirs = change_errors([x, step], got, want, exact, tolerance)
    assert least <= ours <= most
    assert 0 < theirs <= 0.4
    assert elements.compare(got, want, tolerance).ratio < 1


def activation(x: torch.Tensor) -> torch.Tensor:
    return 1 - 2 / (torch.exp(2 * x) + 1)


@pytest.mark.parametrize(
    ("got", "steps", "right"),
    [
        (activation, set(), True),  # a tanh as kernels write it, on small values
        (lambda x: x - x**3 / 3, {0}, True),
        (activation, {0}, False),
        (torch.clone, set(), False),
        (lambda x: x.tanh().half().float(), set(), False),
    ],
    ids=["other digits", "the step itself", "other digits of a step", "a copy", "half"],
)
def test_a_change_counts_by_itself_where_the_own_inputs_are_nearly_the_output(got, steps, right) -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 64) / 128
    want, tolerance = x.tanh(), elements.tolerance_for(torch.float32)
    truth = Truth(pieces=[(..., [x.double().tanh()])], vacuous=(False,), scales=(elements.rms(want),))
    reference: Any = SimpleNamespace(steps=steps, tolerance=lambda _: tolerance)
    expected: Any = SimpleNamespace(judged={"output": want}, recalled=lambda: [x])
    differences = [elements.compare(got(x), want, tolerance)]
    (ratios,) = truth.ratios(differences, [got(x)], expected, reference)
    assert rule(ratios, 4.0).right == right


def is_right(got, want, exact, factor=16.0):
    tolerance = elements.tolerance_for(want.dtype)
    ratios = Ratios(contract=elements.compare(got, want, tolerance).ratio)
    return rule(against_oracle(ratios, got, want, exact, tolerance), factor).right


@pytest.mark.parametrize(("rows", "features", "hidden"), [(3, 31, 17), (32, 128, 64)])
def test_in_16_bits_another_split_of_the_sums_is_right_and_fewer_bits_are_wrong(rows, features, hidden) -> None:
    """Elements near zero lose all their digits in a split, and must not decide."""
    linear = torch.nn.functional.linear
    for seed in range(60):
        torch.manual_seed(seed)
        x, up, down = torch.randn(rows, features), torch.randn(hidden, features), torch.randn(features, hidden)
        x, up, down = x.bfloat16(), (up / features**0.5).bfloat16(), (down / hidden**0.5).bfloat16()
        inside, half = torch.relu(linear(x, up)), hidden // 2
        want = linear(inside, down)
        exact = linear(torch.relu(linear(x.double(), up.double())), down.double())
        split = inside[:, :half] @ down[:, :half].T + inside[:, half:] @ down[:, half:].T
        eight = linear(inside.to(torch.float8_e4m3fn).bfloat16(), down)
        assert [is_right(got, want, exact) for got in (split, eight)] == [True, False]
        if seed >= 20:
            continue
        want, exact, half = linear(x, up), linear(x.double(), up.double()), features // 2
        split = x[:, :half] @ up[:, :half].T + x[:, half:] @ up[:, half:].T
        eight = linear(x.to(torch.float8_e4m3fn).bfloat16(), up)
        assert [is_right(got, want, exact) for got in (split, eight)] == [True, False]


def test_what_a_large_output_loses_near_zero_pays_for_no_error_elsewhere() -> None:
    """Sums of thousands miss the contract near zero; one element or a tail that is off elsewhere is still wrong."""
    for seed in range(20):
        torch.manual_seed(seed)
        a, b = torch.randn(64, 4096), torch.randn(4096, 64)
        want, exact = a @ b, a.double() @ b.double()
        split = a[:, :2048] @ b[:2048] + a[:, 2048:] @ b[2048:]
        assert is_right(split, want, exact)
        one, tail = want.clone(), want.clone()
        one[seed, seed] += 1e-4 * want.std()
        tail[:, -1] *= 1 + 1e-4
        assert not any(is_right(got, want, exact) for got in (want.half().float(), one, tail))


def shortened(x: torch.Tensor, bits: int) -> torch.Tensor:
    """Return fp32 values rounded to this many bits of fraction."""
    step = 1 << (23 - bits)
    return ((x.view(torch.int32) + step // 2) & -step).view(torch.float32)


@pytest.mark.parametrize("scale", [3e-5, 1e-3, 0.03])
@pytest.mark.parametrize("terms", [16, 512, 8192])
def test_no_shorter_type_is_a_narrow_miss_in_small_outputs(terms: int, scale: float) -> None:
    """Each meets the contract, or most of it, and misses the distance from fp64 by far more than a note allows."""
    tolerance = elements.tolerance_for(torch.float32)
    for seed in range(5):
        torch.manual_seed(seed)
        a, b = torch.randn(96, terms), torch.randn(terms, 96) * (scale / terms**0.5)
        want, exact = a @ b, a.double() @ b.double()
        for got in (shortened(a, 10) @ shortened(b, 10), shortened(a, 7) @ shortened(b, 7), want.half().float()):
            ratios = against_oracle(Ratios(contract=0.5), got, want, exact, tolerance)
            assert max(ours / allowed for ours, allowed, _ in ratios.bounds(16.0)) > 4 * NARROW
            assert not is_right(got, want, exact)


def test_outputs_that_are_no_changed_inputs_have_no_change() -> None:
    x = torch.randn(8, 8)
    tolerance = elements.tolerance_for(torch.float32)
    for want in (x.clone(), 2 * x, torch.randn(8, 8), torch.randn(8)):
        assert change_errors([x], want + 1e-5, want, want.double(), tolerance) == (0.0, 0.0)
