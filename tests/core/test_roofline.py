"""Limits: by hand, and by their properties."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbench.core.model import Cost, Peaks
from kbench.core.roofline import limit

PEAKS = Peaks(copy_bytes_per_s=4e12, fp32_flops_per_s=50e12, tf32_flops_per_s=400e12, bf16_flops_per_s=800e12)


def test_memory_bound_by_hand() -> None:
    """8 GB at 4 TB/s are 2 ms; 10 GFLOP at 50 TFLOP/s are 0.2 ms."""
    bound = limit(Cost(dram_bytes=8_000_000_000, flops=10_000_000_000), PEAKS)
    assert (bound.limit_ns, bound.bound_by) == (pytest.approx(2e6), "memory")


FP32_ONLY = Peaks(copy_bytes_per_s=4e12, fp32_flops_per_s=50e12)
LIMITS = [
    # flops by precision, peaks, TF32 allowed, limit in ms, rate
    ({"fp32": 10**12}, FP32_ONLY, False, 20.0, "fp32"),
    ({"fp32": 10**12}, PEAKS, False, 3 / 0.8, "fp16 x 3"),
    ({"fp32": 10**12}, PEAKS, True, 2.5, "tf32"),
    ({"fp32": 10**12}, replace(PEAKS, bf16_flops_per_s=300e12), False, 7.5, "tf32 x 3"),
    ({"fp32": 10**12}, replace(PEAKS, fp32_flops_per_s=500e12), False, 2.0, "fp32"),
    ({"fp32": 10**12}, replace(PEAKS, bf16_flops_per_s=None, tf32_flops_per_s=None), False, 20.0, "fp32"),
    ({"bf16": 2 * 10**12}, PEAKS, False, 2.5, "bf16"),
    ({"fp16": 2 * 10**12}, PEAKS, False, 2.5, "fp16"),
    ({"fp32": 10**12, "bf16": 2 * 10**12}, PEAKS, False, 3 / 0.8 + 2.5, "fp16 x 3, bf16"),
    ({"fp32": 10**12, "bf16": 0}, FP32_ONLY, False, 20.0, "fp32"),
    ({}, PEAKS, False, 1e-6 / 4, "memory"),
]


@pytest.mark.parametrize(("flops", "peaks", "tf32", "limit_ms", "rate"), LIMITS)
def test_the_best_rate_that_reaches_the_tolerance(flops, peaks, tf32, limit_ms, rate):
    bound = limit(Cost(dram_bytes=1000, flops=0, flops_by_precision=flops), peaks, tf32=tf32)
    assert (bound.limit_ns, bound.rate) == (pytest.approx(1e6 * limit_ms), rate)
    assert bound.bound_by == ("memory" if rate == "memory" else "compute")


def test_an_unmeasured_precision_takes_the_fastest_peak() -> None:
    only_fp32 = Peaks(copy_bytes_per_s=1e12, fp32_flops_per_s=1e12)
    cost = Cost(dram_bytes=1, flops=10**12, flops_by_precision={"fp8": 10**12})
    assert limit(cost, only_fp32).limit_ns == pytest.approx(1e9)
    assert limit(cost, PEAKS).limit_ns == pytest.approx(1e9 / 800)
    assert limit(cost, only_fp32, tf32=True).limit_ns == pytest.approx(1e9)


def test_nothing_to_do_has_no_limit() -> None:
    assert limit(Cost(dram_bytes=0, flops=0), PEAKS).limit_ns == 0


def test_senseless_figures() -> None:
    with pytest.raises(ValueError, match="positive"):
        limit(Cost(dram_bytes=1, flops=1), Peaks(copy_bytes_per_s=0, fp32_flops_per_s=1))


amounts = st.integers(0, 10**13)


@given(amounts, amounts, amounts, amounts)
def test_more_work_never_has_a_lower_limit(bytes_: int, flops: int, more_bytes: int, more_flops: int) -> None:
    less = limit(Cost(dram_bytes=bytes_, flops=flops), PEAKS)
    more = limit(Cost(dram_bytes=bytes_ + more_bytes, flops=flops + more_flops), PEAKS)
    assert more.limit_ns >= less.limit_ns
