"""Limits: by hand, and by their properties."""

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


def test_compute_bound_by_hand() -> None:
    cost = Cost(dram_bytes=4_000_000, flops=10**12)
    assert limit(cost, PEAKS).bound_by == "compute"
    assert limit(cost, PEAKS).limit_ns == pytest.approx(20e6)
    assert limit(cost, PEAKS, tf32=True).limit_ns == pytest.approx(2.5e6)


def test_each_precision_at_its_own_peak() -> None:
    cost = Cost(dram_bytes=1, flops=3 * 10**12, flops_by_precision={"fp32": 10**12, "bf16": 2 * 10**12})
    assert limit(cost, PEAKS).limit_ns == pytest.approx(20e6 + 2.5e6)


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
