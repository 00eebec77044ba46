"""What judging a case takes of a device, and which judges may rest there."""

import pytest

from kbench.core.device_room import may_rest, needed_bytes

GIB = 1 << 30


def test_a_small_case_needs_contexts_and_a_queue_and_a_large_one_three_times_its_size_and_what_calls_take():
    assert needed_bytes(1 << 20) == 9 * GIB
    assert needed_bytes(10 * GIB) == 33 * GIB
    assert needed_bytes(10 * GIB, 2 * GIB) == 41 * GIB


@pytest.mark.parametrize(
    ("case_gib", "resting_gib", "memory_gib", "lanes", "rests"),
    [
        (0, 0, 141, 3, True),
        (0, 8, 141, 3, True),
        (0, 16, 141, 3, False),  # half of the device, over three lanes, is 23.5 GiB
        (2, 0, 141, 3, True),
        (10, 0, 141, 3, False),
        (0, 0, 24, 3, False),
        (0, 0, 24, 1, True),
        (0, 0, 141, 0, False),
        (0, 0, None, 1, False),
    ],
)
def test_what_may_rest(case_gib, resting_gib, memory_gib, lanes, rests):
    memory_bytes = None if memory_gib is None else memory_gib * GIB
    assert may_rest(case_gib * GIB, resting_gib * GIB, memory_bytes, lanes) is rests
