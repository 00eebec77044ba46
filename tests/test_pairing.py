"""How many calls make one sample, and where two processes begin; the rest of pairing runs in tests/test_run.py."""

import os

import pytest

from kbench.isolation.pairing import batch_size
from kbench.measure.timing import start_on


@pytest.mark.parametrize(
    ("timer", "fastest_ns", "slots", "calls"),
    [
        ("events", 1_000_000, 16, 1),
        ("events", 20_000, 16, 1),
        ("events", 19_999, 16, 10),
        ("graph", 5_000, 16, 16),
        ("events", 5_000, 4, 4),
        ("events", 0, 16, 16),
        ("host", 50_000, 16, 5),
        ("host", 4_000_000, 16, 5),
        ("host", 6_000_000, 16, 3),
        ("host", 30_000_000, 16, 1),
        ("host", 1_000_000, 1, 1),
        ("host", 0, 16, 5),
    ],
)
def test_calls_of_one_sample(timer, fastest_ns, slots, calls):
    assert batch_size(timer, fastest_ns, slots) == calls


def test_a_processor_is_where_one_starts_and_no_cage():
    before = os.sched_getaffinity(0)
    for number in range(2 * len(before)):
        start_on(number)
        assert os.sched_getaffinity(0) == before
