"""Comparisons against torch's own, at chunk borders, for every dtype; fingerprints and poison."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from require import WITH_CUDA

from kbench.devices.poison import poison, poison_floats
from kbench.numerics import codes, elements
from kbench.numerics.elements import Tolerance

DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
    torch.complex128,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
]
DEVICES = ["cpu", pytest.param("cuda", marks=WITH_CUDA)]
ROUGH = Tolerance(rtol=1e-2, atol=1e-2)


def tolerance_of(dtype: torch.dtype) -> Tolerance:
    return elements.tolerance_for(dtype)


def oracle_ratio(got: torch.Tensor, oracle: torch.Tensor, tolerance: Tolerance) -> float:
    near_zero = tolerance.near_zero(elements.rms(oracle))
    both = [got, oracle.to(got.dtype)]
    worst, quick = (
        elements.worst_errors(both, oracle, tolerance, [near_zero], quick=quick)[0, 0].item() for quick in (False, True)
    )
    assert quick == pytest.approx(worst) if math.isfinite(quick) else not (got - oracle).isfinite().all()
    return worst


def torch_agrees(got: torch.Tensor, want: torch.Tensor, tolerance: Tolerance) -> bool:
    if want.is_floating_point():
        got, want = got.double(), want.double()
    try:
        torch.testing.assert_close(got, want, rtol=tolerance.rtol, atol=tolerance.atol, equal_nan=True)
    except AssertionError:
        return False
    return True


def sample(dtype: torch.dtype, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    values = torch.randn(shape, generator=generator) * 10
    if dtype.is_complex:
        return torch.complex(values, torch.randn(shape, generator=generator)).to(dtype)
    return values.abs().to(dtype) if dtype is torch.uint8 else (values > 0) if dtype is torch.bool else values.to(dtype)


# --- compare -------------------------------------------------------------------


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(DTYPES),
    st.lists(st.integers(1, 4), max_size=3),
    st.integers(0, 1 << 30),
    st.sampled_from([0.0, 0.5, 0.99, 1.01, 3.0, 100.0]),
)
def test_compare_agrees_with_torch(dtype, shape, seed, share) -> None:
    """One element is moved by a share of its tolerance."""
    generator = torch.Generator().manual_seed(seed)
    want = sample(dtype, tuple(shape), generator)
    got, tolerance = want.clone(), tolerance_of(dtype)
    place = seed % want.numel()
    if not tolerance.exact:
        value = want.flatten()[place]
        moved = value.abs().item() * (1 + share * tolerance.rtol) + share * tolerance.atol
        got.view(-1)[place] = value + (moved - value.abs().item())
    elif share > 1:
        got.view(-1)[place] = ~got.view(-1)[place] if dtype is torch.bool else got.view(-1)[place] + 1
    found = elements.compare(got, want, tolerance)
    assert (found.ratio <= 1) == torch_agrees(got, want, tolerance)
    assert found.elements == want.numel()
    assert (found.wrong > 0) == (found.ratio > 1)


SPECIAL = [0.0, -0.0, 1.0, math.nan, math.inf, -math.inf, 3e38]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("got", SPECIAL)
@pytest.mark.parametrize("want", SPECIAL)
def test_special_values(dtype, got, want) -> None:
    a, b = torch.tensor([1.0, got], dtype=dtype), torch.tensor([1.0, want], dtype=dtype)
    found = elements.compare(a, b, ROUGH)
    assert (found.ratio <= 1) == torch_agrees(a, b, ROUGH)
    assert not math.isnan(found.ratio)
    assert math.isfinite(found.max_abs)
    assert math.isfinite(found.max_rel)
    has_size = found.ratio <= 1 or (math.isfinite(a[1]) and math.isfinite(b[1]))
    assert found.largest_error == (found.max_abs if has_size else math.inf)


def test_bits_count_where_comparison_is_exact() -> None:
    for dtype in (torch.int64, torch.bool, torch.float8_e4m3fn):
        a = torch.tensor([0.0, 1.0, 1.0]).to(dtype)
        b = torch.tensor([0.0, 1.0, 0.0]).to(dtype)
        assert elements.compare(a, a.clone(), elements.tolerance_for(dtype)).ratio == 0
        found = elements.compare(a, b, elements.tolerance_for(dtype))
        assert (found.wrong, found.ratio) == (1, math.inf)
        assert found.mismatches[0].index == (2,)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.bfloat16])
def test_elements_of_any_type_are_replaced(dtype) -> None:
    values, by = (torch.tensor(of).to(dtype) for of in ([0, 1, 1], [1, 0, 0]))
    assert codes.replaced(values, by, torch.tensor([0, 2])).tolist() == [1, 1, 0]


def test_a_large_integer_off_by_one_is_wrong() -> None:
    """As a double, 2^60 and 2^60 + 1 are the same."""
    want = torch.tensor([1 << 60])
    assert elements.compare(want + 1, want, elements.tolerance_for(torch.int64)).wrong == 1


def test_errors_are_those_of_the_worst_element() -> None:
    want = torch.tensor([1.0, 100.0, -2.0])
    found = elements.compare(want + torch.tensor([0.02, 1.0, 0.0]), want, ROUGH)
    assert found.max_abs == pytest.approx(1.0)
    assert found.max_rel == pytest.approx(0.02, rel=1e-4)
    assert found.ratio == pytest.approx(0.02 / 0.02, rel=1e-4)


@pytest.fixture
def small_chunks(monkeypatch) -> None:
    monkeypatch.setattr(elements, "CPU_CHUNK_ELEMENTS", 6)


SHAPES = [(1,), (6,), (7,), (13,), (3, 2), (3, 4), (4, 3, 5), (2, 7), (1, 1, 13), (5, 1, 3), (2, 2, 2, 9)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
@pytest.mark.usefixtures("small_chunks")
def test_every_element_is_seen_once(shape, dtype) -> None:
    """A single wrong element is found, and named, wherever the chunks end."""
    want = torch.arange(math.prod(shape)).reshape(shape).to(dtype)
    for flat in range(want.numel()):
        got = want.clone()
        got.view(-1)[flat] += 100
        found = elements.compare(got, want, elements.tolerance_for(dtype), "y")
        assert (found.wrong, found.elements) == (1, want.numel())
        (mismatch,) = found.mismatches
        assert (mismatch.output, mismatch.got, mismatch.want) == ("y", flat + 100, flat)
        assert want[mismatch.index] == flat


@pytest.mark.usefixtures("small_chunks")
def test_chunks_change_no_figure(monkeypatch) -> None:
    torch.manual_seed(0)
    want = torch.randn(9, 7).t()
    got = want + 3e-5 * torch.randn(7, 9)
    tolerance = elements.tolerance_for(torch.float32)
    in_chunks = elements.compare(got, want, tolerance), oracle_ratio(got, want.double(), tolerance)
    monkeypatch.setattr(elements, "CPU_CHUNK_ELEMENTS", 1 << 20)
    whole = elements.compare(got, want, tolerance), oracle_ratio(got, want.double(), tolerance)
    assert (in_chunks[0].wrong, in_chunks[0].mismatches) == (whole[0].wrong, whole[0].mismatches)
    assert in_chunks[0].max_abs == pytest.approx(whole[0].max_abs)
    assert in_chunks[1] == pytest.approx(whole[1])
    assert len(whole[0].mismatches) == min(whole[0].wrong, elements.SHOWN_MISMATCHES)
    assert whole[0].wrong > elements.SHOWN_MISMATCHES


def test_nothing_to_compare() -> None:
    empty = torch.empty(3, 0)
    assert elements.compare(empty, empty, ROUGH) == elements.Difference()
    assert oracle_ratio(empty, empty.double(), ROUGH) == 0


def test_a_scalar_and_a_strided_tensor() -> None:
    assert elements.compare(torch.tensor(2.0), torch.tensor(1.0), ROUGH).mismatches[0].index == ()
    want = torch.zeros(4, 6).t()
    got = want.clone(memory_format=torch.contiguous_format)
    got[5, 2] = 1
    assert elements.compare(got, want, ROUGH).mismatches[0].index == (5, 2)


def test_of_complex_values_the_part_that_is_wrong_is_shown():
    """Their sizes may be equal where one is the other's conjugate."""
    want = torch.tensor([3 + 4j, 3 + 4j])
    conjugate, other = elements.compare(torch.tensor([3 - 4j, 5 + 4j]), want, ROUGH).mismatches
    assert (conjugate.output, conjugate.got, conjugate.want) == ("output.imag", -4, 4)
    assert (other.output, other.got, other.want) == ("output.real", 5, 3)


def test_a_problems_tolerance_leaves_integers_exact() -> None:
    assert elements.tolerance_for(torch.float16, 1e-2) == Tolerance(rtol=1e-2, atol=1e-2)
    assert elements.tolerance_for(torch.int32, 1e-2).exact
    assert elements.tolerance_for(torch.float8_e5m2).exact


# --- oracle --------------------------------------------------------------------


def test_oracle_ratio_is_scaled_to_small_outputs() -> None:
    """Outputs of 1e-6 are not right because they are below an absolute tolerance of 1e-5."""
    tolerance = Tolerance(rtol=0, atol=1e-5)
    oracle = torch.tensor([1e-6, -1e-6], dtype=torch.float64)
    assert oracle_ratio(torch.zeros(2), oracle, tolerance) == pytest.approx(1e5)
    large = torch.full((4,), 10.0, dtype=torch.float64)
    assert oracle_ratio(large + 2e-5, large, tolerance) == pytest.approx(2)


def test_oracle_ratio_of_special_values() -> None:
    oracle = torch.tensor([1.0, math.inf, math.nan], dtype=torch.float64)
    assert oracle_ratio(oracle.float(), oracle, ROUGH) == 0
    for place in range(3):
        got = oracle.float()
        got[place] = math.inf if place != 1 else -math.inf
        assert oracle_ratio(got, oracle, ROUGH) == math.inf
    zeros = torch.zeros(3, dtype=torch.float64)
    assert oracle_ratio(torch.zeros(3), zeros, ROUGH) == 0
    assert oracle_ratio(torch.tensor([0, 0, 1e-30]), zeros, ROUGH) > 1


# --- vacuous -------------------------------------------------------------------

TIGHT = Tolerance(rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("want", "trivial", "vacuous"),
    [
        (torch.full((8,), 1e-6), [], True),
        (torch.full((8,), 3.0), [], True),
        (torch.arange(8.0), [], False),
        (torch.arange(8.0), [torch.arange(8.0) + 1e-7], True),
        (torch.arange(8.0), [torch.arange(8.0)[:4], torch.arange(8)], False),
        (torch.tensor([1.0]), [], False),
        (torch.zeros(8, dtype=torch.int64), [], False),
        (torch.full((8,), math.nan), [], False),
        (torch.full((8,), 1e-6, dtype=torch.complex64), [], True),
        (torch.full((8,), 3.0, dtype=torch.bfloat16), [], True),
    ],
)
def test_what_is_vacuous(want, trivial, vacuous) -> None:
    tolerance = elements.tolerance_for(want.dtype)
    scale = 1.0 if tolerance.exact else elements.rms(want)
    assert elements.vacuous_and_rms(want, trivial, tolerance) == (vacuous, scale)


@pytest.mark.usefixtures("small_chunks")
def test_one_element_at_the_end_makes_it_meaningful() -> None:
    want = torch.zeros(40)
    assert elements.vacuous_and_rms(want, [], TIGHT) == (True, 0)
    want[-1] = 1
    assert elements.vacuous_and_rms(want, [], TIGHT) == (False, elements.rms(want))


# --- fingerprints --------------------------------------------------------------


on_each_device = pytest.mark.parametrize("device", DEVICES)
"""A GPU's fingerprint is another one than a CPU's."""


def placed(values: torch.Tensor, offset_bytes: int) -> torch.Tensor:
    """Put values at a byte offset into a buffer, as a misaligned slot does."""
    size = values.numel() * values.element_size()
    buffer = torch.zeros(size + offset_bytes + 8, dtype=torch.uint8, device=values.device)
    view = buffer[offset_bytes : offset_bytes + values.numel() * values.element_size()].view(values.dtype)
    view.copy_(values)
    return view


@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from([torch.uint8, torch.int16, torch.float32, torch.int64]),
    st.integers(1, 40),
    st.integers(0, 2),
    st.integers(0, 1 << 20),
    st.integers(1, 255),
)
@on_each_device
def test_any_changed_byte_changes_the_fingerprint(device, dtype, length, misaligned, seed, flip) -> None:
    """At any alignment, in any word, in the tail."""
    torch.manual_seed(seed)
    tensor = placed(torch.randint(0, 100, (length,)).to(device, dtype), misaligned * dtype.itemsize)
    before = elements.fingerprint(tensor)
    assert elements.fingerprint(tensor) == before
    raw = tensor.view(torch.uint8)
    place = seed % raw.numel()
    raw[place] ^= flip
    assert elements.fingerprint(tensor) != before
    raw[place] ^= flip
    assert elements.fingerprint(tensor) == before


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
@on_each_device
def test_inverted_bits_change_the_fingerprint(device, dtype) -> None:
    """0 and -1 are the commonest pair of all."""
    zeros = torch.zeros(16, dtype=dtype, device=device)
    assert elements.fingerprint(zeros) != elements.fingerprint(~zeros)


@pytest.mark.parametrize("offset", [0, 1, 4])
@on_each_device
def test_permuted_values_change_the_fingerprint(device, offset) -> None:
    values = torch.randn(64, device=device).view(torch.uint8)
    tensor = placed(values, offset)
    before = elements.fingerprint(tensor)
    words = values.view(torch.int64)
    for i, j in ((0, 1), (0, 31), (3, 4), (7, 8)):
        swapped = words.clone()
        swapped[[i, j]] = words[[j, i]]
        assert elements.fingerprint(placed(swapped.view(torch.uint8), offset)) != before, (i, j)
    assert elements.fingerprint(placed(words.flip(0).view(torch.uint8), offset)) != before
    assert elements.fingerprint(placed((values.view(torch.float32) * -1).view(torch.uint8), offset)) != before


@on_each_device
def test_a_swapped_sign_changes_the_fingerprint(device) -> None:
    one, other = (torch.tensor(values, device=device) for values in ([0.0, 5.0, 0.0, -5.0], [0.0, -5.0, 0.0, 5.0]))
    assert elements.fingerprint(one) != elements.fingerprint(other)


@on_each_device
def test_fingerprints_of_strided_and_empty_tensors(device) -> None:
    matrix = torch.randn(6, 4, device=device)
    view = matrix.t()
    before = elements.fingerprint(view)
    matrix[5, 3] += 1
    assert elements.fingerprint(view) != before
    assert elements.fingerprint(torch.empty(0, 3, device=device)) == elements.fingerprint(torch.empty(0, device=device))


def test_a_fingerprint_of_what_requires_a_gradient() -> None:
    assert elements.fingerprint(torch.ones(3, requires_grad=True)) == elements.fingerprint(torch.ones(3))


# --- poison --------------------------------------------------------------------


@pytest.mark.parametrize("nbytes", [0, 1, 3, 4, 11, 256])
def test_poison_reaches_every_byte(nbytes) -> None:
    block = torch.zeros(nbytes, dtype=torch.uint8)
    poison(block)
    assert (block != 0).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e5m2])
def test_poison_of_floats_is_nan_wherever_they_lie(dtype) -> None:
    block = torch.zeros(6, 4, dtype=dtype)
    poison_floats(block[::2, 1:3])
    seen = block.float().isnan()
    assert seen[::2, 1:3].all()
    assert int(seen.sum()) == 6


def test_poison_is_recognised_in_wrong_outputs() -> None:
    block = torch.zeros(40, dtype=torch.uint8)
    poison(block)
    got = block.view(torch.float32)
    assert got.isnan().all()
    got[:7] = 1
    found = elements.compare(got, torch.ones(10), TIGHT)
    assert (found.wrong, found.poisoned) == (3, 3)
    computed_nan = torch.ones(10)
    computed_nan[0] = math.nan
    assert elements.compare(computed_nan, torch.ones(10), TIGHT).poisoned == 0


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.float16, torch.int32, torch.float32, torch.complex64])
def test_equal_bits(dtype) -> None:
    one = torch.arange(24).reshape(2, 3, 4).to(dtype)
    assert elements.same_bits(one, one.clone())
    assert elements.same_bits(one, one.transpose(1, 2).contiguous().transpose(1, 2))
    other = one.clone()
    other[1, 2, 3] = other[0, 0, 0]
    assert not elements.same_bits(one, other)
    assert elements.same_bits(one[:0], other[:0])
    assert elements.same_bits(one[0, 0, 0], other[0, 0, 0])


def test_equal_values_are_not_equal_bits() -> None:
    zero, nan = torch.tensor([0.0, 1.0]), torch.tensor([math.nan, 1.0])
    assert not elements.same_bits(zero, torch.tensor([-0.0, 1.0]))
    assert elements.same_bits(nan, nan.clone())
    assert not elements.same_bits(nan, (nan.view(torch.int32) + 1).view(torch.float32))
    turned = torch.tensor([1 + 2j]).conj()
    assert elements.same_bits(turned, torch.tensor([1 - 2j]))


def test_equal_bits_in_chunks(monkeypatch) -> None:
    monkeypatch.setattr(elements, "CPU_CHUNK_ELEMENTS", 4)
    one = torch.randn(5, 3)
    other = one.clone()
    assert elements.same_bits(one, other)
    assert elements.all_finite(one)
    other[4, 2] = math.inf
    assert not elements.same_bits(one, other)
    assert not elements.all_finite(other)


@pytest.mark.parametrize(
    ("want", "oracle", "overflows"),
    [
        ([1.0, 2.0], [1.0, 2.0], False),
        ([1.0, math.inf], [1.0, 2.0], True),
        ([1.0, math.nan], [1.0, 2.0], True),
        ([1.0, math.inf], [1.0, math.inf], False),
        ([1.0, 2.0], [1.0, math.inf], False),
        ([], [], False),
    ],
)
def test_a_reference_overflows_where_fp64_does_not(want, oracle, overflows) -> None:
    exact = torch.tensor(oracle, dtype=torch.float64)
    assert elements.overflow_and_rms(torch.tensor(want), exact) == (overflows, elements.rms(exact))
