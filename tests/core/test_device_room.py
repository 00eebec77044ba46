"""Memory that judging a case takes of a device."""

from kbench.core.device_room import needed_bytes

GIB = 1 << 30


def test_a_small_case_needs_contexts_and_a_queue_and_a_large_one_three_times_its_size_and_what_calls_take():
    assert needed_bytes(1 << 20) == 9 * GIB
    assert needed_bytes(10 * GIB) == 33 * GIB
    assert needed_bytes(10 * GIB, 2 * GIB) == 41 * GIB
