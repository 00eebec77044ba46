"""Occupancy as NVIDIA's calculator has it, for Hopper (9.0): 64 warps, 65,536 registers, 228 KiB an SM."""

from dataclasses import replace
from functools import partial

import pytest

from kbench.core.occupancy import occupancy
from kbench.core.trace import DeviceActivity, DeviceShape

HOPPER = DeviceShape(
    major=9, minor=0, sms=132, threads_per_sm=2048, registers_per_sm=65536, shared_bytes_per_sm=228 << 10
)
TURING = replace(HOPPER, major=7, minor=5, sms=40, threads_per_sm=1024, shared_bytes_per_sm=64 << 10)
launch = partial(DeviceActivity, name="k", start_ns=0, duration_ns=1, blocks=100_000, threads=256, registers=32)


@pytest.mark.parametrize(
    ("given", "share", "limiter", "blocks_per_sm"),
    [
        (launch(), 1.0, "", 8),
        (launch(registers=64), 0.5, "registers", 4),
        (launch(registers=255), 0.125, "registers", 1),
        (launch(registers=33), 0.75, "registers", 6),  # 40 registers a thread are allocated, for 51 warps, so 48
        (launch(threads=1024, registers=64), 0.5, "registers", 1),
        (launch(shared_bytes=100 << 10), 0.25, "shared memory", 2),
        (launch(shared_bytes=227 << 10), 0.125, "shared memory", 1),
        (launch(threads=32), 0.5, "blocks", 32),
        (launch(threads=33), 1.0, "", 32),  # two warps a block
        (launch(threads=768), 0.75, "block size", 2),
        (launch(blocks=132), 0.125, "grid", 1),
        (launch(blocks=1), 0.125, "grid", 1),
        (launch(blocks=133), 0.25, "grid", 2),
    ],
)
def test_hopper(given, share, limiter, blocks_per_sm):
    found = occupancy(given, HOPPER)
    assert (found.share, found.limiter, found.blocks_per_sm) == (share, limiter, blocks_per_sm)


def test_an_older_device_has_less_of_everything():
    found = occupancy(launch(threads=32, registers=16), TURING)
    assert (found.share, found.limiter, found.blocks_per_sm) == (0.5, "blocks", 16)


@pytest.mark.parametrize(("blocks", "waves"), [(1056, 1.0), (1188, 1.125), (66, 0.0625)])
def test_waves_count_what_the_device_holds_at_a_time(blocks, waves):
    assert occupancy(launch(blocks=blocks), HOPPER).waves == waves


@pytest.mark.parametrize(
    "given", [launch(threads=0), launch(blocks=0), launch(registers=4096), launch(shared_bytes=1 << 20)]
)
def test_a_copy_or_what_cannot_run_has_none(given):
    assert occupancy(given, HOPPER) is None


def test_a_device_that_says_nothing_of_itself_divides_nothing():
    assert occupancy(launch(), replace(HOPPER, sms=0)) is None
