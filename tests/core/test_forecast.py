"""Which cases are worth a line before they start."""

import pytest

from kbench.core.forecast import Forecast, large_forecasts, steps_take_most

GB = 10**9
FULL = Forecast(device="cpu", case="full", call_bytes=7 * GB)
SMALL = Forecast(device="cpu", case="small", call_bytes=GB // 100)

EXAMPLES = [
    ("a large one, and the way out", [FULL], SMALL, ((FULL,), SMALL)),
    ("no way out is known", [FULL], None, ((FULL,), None)),
    ("the small case is large too", [FULL], Forecast(device="cpu", case="small", call_bytes=GB), ((FULL,), None)),
    ("the small case is chosen as well", [FULL, SMALL], SMALL, ((FULL,), None)),
    ("nothing is large", [SMALL], SMALL, ((), None)),
    ("nothing is known", [Forecast(device="cpu", case="full")], SMALL, ((), None)),
    ("little for a GPU", [Forecast(case="full", device="cuda", call_bytes=GB)], SMALL, ((), None)),
    ("little memory", [Forecast(device="cpu", case="rnn", call_bytes=GB // 10, about_s=95.0)], SMALL, ((), None)),
]


@pytest.mark.parametrize(
    ("chosen", "small", "expected"), [one[1:] for one in EXAMPLES], ids=[one[0] for one in EXAMPLES]
)
def test_what_is_told(chosen, small, expected):
    assert large_forecasts(chosen, small) == expected


GIB = 1 << 30


@pytest.mark.parametrize(
    ("between_bytes", "memory_bytes", "expected"),
    [(11 * GIB, 80 * GIB, True), (10 * GIB, 80 * GIB, False), (11 * GIB, None, False)],
)
def test_steps_take_most_of_a_device_when_four_calls_together_need_more_than_half(
    between_bytes: int, memory_bytes: int | None, expected: bool
) -> None:
    assert steps_take_most(between_bytes, memory_bytes) is expected
