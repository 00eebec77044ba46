"""Memory that judging a case takes of a device."""

import pytest

from kbench.core.device_room import steps_take_most

GIB = 1 << 30


@pytest.mark.parametrize(
    ("between_bytes", "memory_bytes", "expected"),
    [(11 * GIB, 80 * GIB, True), (10 * GIB, 80 * GIB, False), (11 * GIB, None, False)],
)
def test_steps_take_most_of_a_device_when_four_calls_together_need_more_than_half(
    between_bytes: int, memory_bytes: int | None, expected: bool
) -> None:
    assert steps_take_most(between_bytes, memory_bytes) is expected
