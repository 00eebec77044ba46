"""Numbers for readers: digits follow the interval, units follow the smallest value, absent stays absent."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbench.report import units

TIMES = st.floats(min_value=1, max_value=1e12, allow_nan=False)


@pytest.mark.parametrize(
    ("value", "half_width", "text"),
    [
        (1.166, 0.005, "1.166"),
        (1.166, 0.05, "1.17"),
        (1.972, 0.0015, "1.9720"),
        (524.1, 3.2, "524"),
        (524.1, 2.2, "524.1"),
        (9241.3, 31, "9,241"),
        (1.17, None, "1.17"),
        (2.1, 4.6, "2"),
        (0, None, "0"),
        (0.0, 0.02, "0.000"),
        (5.0, 0.0, "5.00"),
        (math.inf, None, "inf"),
        (1.0, math.nan, "1.00"),
    ],
)
def test_digits_follow_the_half_width(value, half_width, text):
    assert units.number(value, half_width) == text


@pytest.mark.parametrize(
    ("value", "half_width", "alone", "weak", "text"),
    [
        # An interval over processes stands beside it: as ever.
        (1.166, 0.005, False, False, "1.166×"),
        (1.17, None, False, False, "1.17×"),
        # One process: the half-width is at most one unit of the last digit.
        (1.166, 0.0004, True, False, "1.166×"),
        (1.166, 0.004, True, False, "1.17×"),
        (1.166, 0.03, True, False, "1.2×"),
        (1.166, 0.3, True, False, "1×"),
        (0.78, 0.23, True, False, "1×"),
        (0.78, 0.2, True, False, "0.8×"),  # 1 lies outside
        (0.98, 0.33, True, False, "1×"),
        (20.03, 0.06, True, False, "20.0×"),
        (20.03, 0.4, True, False, "20×"),
        (1245.0, 30.0, True, False, "1,200×"),
        (1.2, 5.0, True, False, "~1×"),
        (1.16612, 1e-7, True, False, "1.166×"),
        (1.166, None, True, False, "1.2×"),
        # Weak: two digits at most, however narrow the interval.
        (1.166, 0.0004, False, True, "~1.2×"),
        (1.166, None, False, True, "~1.2×"),
        (1.966, 0.3, True, True, "~2×"),
        (0.7068, 0.335, True, True, "~1×"),  # KernelBench 3/30 against itself, on busy processors
        (0.7068, 0.28, True, True, "~0.7×"),  # 1 lies outside its interval
        (0.4, 0.9, True, True, "~0.4×"),  # no digit of it would be left
        (2.0, 1.5, True, True, "~2×"),
        (2.0, 1.5, True, False, "~2×"),
        (2.0, 0.99, True, True, "~2×"),
        (1.6, 0.3, False, True, "~1.6×"),  # one digit would lie outside its own interval
        (0.996, None, False, True, "~1.0×"),
        (1245.0, None, False, True, "~1,200×"),
        (0.03742, None, True, True, "~0.037×"),
        (None, None, True, True, "–"),
    ],
)
def test_a_speed_up_has_as_many_digits_as_are_confirmed(value, half_width, alone, weak, text):
    low, high = (None, None) if half_width is None else (value - half_width, value + half_width)
    assert units.speedup(value, low, high, alone=alone, weak=weak) == text


@given(st.floats(min_value=1e-3, max_value=1e4), st.floats(min_value=1e-6, max_value=0.9))
def test_a_digit_more_would_be_less_than_the_half_width(value, share):
    """So rounding loses less than five half-widths, but for the most digits there are; half of the first digit, or what
    the interval allows, at most."""
    lost = abs(float(units.confirmed(value, share * value).replace(",", "")) - value)
    scale = 10 ** math.floor(math.log10(value))
    assert lost <= max(5 * share * value, scale / 200) * (1 + 1e-6)
    assert lost <= max(scale / 2, share * value) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("time_ns", "half_width_ns", "text"),
    [
        (56_290, 560, "56.29 ± 0.56"),
        (530_000, 5_300, "530.0 ± 5.3"),
        (530_000, 53_000, "530 ± 53"),
        (530_000, None, "530"),
        (530_000, 0, "530"),
        (None, 5, "–"),
    ],
)
def test_a_time_with_its_half_width(time_ns, half_width_ns, text):
    assert units.plus_minus(time_ns, half_width_ns, units.unit_for([56_290])) == text


@given(TIMES, st.floats(min_value=1e-6, max_value=0.3))
def test_rounding_adds_little_to_the_interval(value, share):
    half = value * share
    unit = units.unit_for([value])
    shown = float(units.time_cell(value, unit, half).replace(",", "")) * unit.size_ns
    four_decimals = 0.5e-4 * unit.size_ns
    assert abs(shown - value) <= max(half / 6, four_decimals) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("times", "unit"),
    [([9.2e6], "ms"), ([5800.0, 9.2e6], "µs"), ([None, 3e9], "s"), ([800.0], "ns"), ([], "ns"), ([None], "ns")],
)
def test_the_smallest_time_picks_the_unit(times, unit):
    assert units.unit_for(times).name == unit


@given(TIMES)
def test_a_time_in_its_unit_is_below_ten_thousand_of_it(time):
    unit = units.unit_for([time])
    assert time / unit.size_ns >= 1
    assert time / unit.size_ns < 1000 or unit.name == "s"


@pytest.mark.parametrize(
    "write",
    [
        lambda: units.duration(None),
        lambda: units.speedup(None),
        lambda: units.interval(None, 1.0),
        lambda: units.percent(None),
        lambda: units.change(None),
        lambda: units.error_size(None),
        lambda: units.byte_size(None),
        lambda: units.rate(None, 5.0, "B"),
        lambda: units.time_cell(None, units.unit_for([])),
    ],
)
def test_absent_is_a_dash(write):
    assert write() == units.ABSENT


def test_texts():
    assert units.speedup(2.1, 0.4, 8.7) == "2.1×"
    assert units.interval(0.4, 8.7) == "0.40 … 8.7"
    assert units.interval(1.161, 1.171, weak=True) == "1.2 … 1.2"
    assert units.interval(0.4123, 8.7, weak=True) == "0.41 … 8.7"
    assert units.duration(9.24e6) == "9.24 ms"
    assert units.seconds(14.23) == "14.2 s"
    assert units.seconds(185) == "3 min 05 s"
    assert units.seconds(99.96) == "1 min 40 s"
    assert units.change(0.078, 0.001) == "+7.80 %"
    assert units.change(-0.066) == "−6.60 %"
    assert units.change(0.0) == "±0 %"
    assert units.change(-0.001, 0.1) == "±0 %"
    assert units.change(0.01, 0.1) == "+1 %"
    assert units.percent(81.7) == "82 %"
    assert units.percent(8.24) == "8.2 %"
    assert units.error_size(3.14e-7) == "3.1e-07"
    assert units.error_size(0.0) == "0"
    assert units.error_size(math.nan) == "nan"
    assert units.byte_size(7.516e9) == "7.52 GB"
    assert units.rate(15_000_000_000, 4e6, "B") == "3.75 TB/s"
    assert units.rate(15_000, 1e4, "FLOP") == "1.50 GFLOP/s"


@given(st.floats(min_value=-100, max_value=300))
def test_a_bar_has_its_width_and_grows(percent):
    drawn = units.bar(percent)
    assert len(drawn) == 10
    assert drawn.count("█") <= units.bar(min(percent + 20, 300.0)).count("█")


def test_the_ends_of_a_bar():
    assert units.bar(0) == "··········"
    assert units.bar(100) == units.bar(700) == "██████████"
    assert units.bar(50) == "█████·····"
    assert units.bar(None) == ""


@pytest.mark.parametrize(
    ("done", "total", "elapsed_s", "text"),
    [
        (0, 10, 0.0, ""),
        (1, 3, 20.0, "about 40.0 s left"),
        (20, 177, 60.0, "about 7 min 51 s left"),
        (10, 10, 5.0, "about 0.0 s left"),
    ],
)
def test_time_left(done, total, elapsed_s, text):
    assert units.time_left(done, total, elapsed_s) == text
