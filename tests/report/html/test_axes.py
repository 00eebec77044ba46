"""Axes and labels: round values inside, few enough for a phone, in their places."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbench.report.html.charts import LABEL_GAP, LETTER, MOST_TICKS, Scale, Tick, around, spread_labels

POSITIVE = st.floats(1e-9, 1e15)


@pytest.mark.parametrize(
    ("low", "high", "log", "texts"),
    [
        (0.0, 100.0, False, ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]),
        (0.9, 30.0, True, ["1 %", "2 %", "5 %", "10 %", "20 %"]),
        (0.9, 1.25, True, ["0.9 %", "1 %", "1.1 %", "1.2 %"]),
        (2e-7, 3e-3, True, ["1e-06 %", "1e-05 %", "0.0001 %", "0.001 %"]),
    ],
)
def test_ticks_are_round(low, high, log, texts):
    assert [tick.text for tick in Scale(low=low, high=high, log=log, unit=" %").ticks()] == texts


@pytest.mark.parametrize(
    ("at", "text", "centre"),
    [(50, "10,000×", 50), (95, "10,000×", 91.6), (95, "1×", 95), (99, "1×", 97.6), (1, "1×", 2.4)],
)
def test_a_label_stays_inside_its_axis(at, text, centre):
    assert Tick(at=at, text=text).centre == pytest.approx(centre)


@given(values=st.lists(POSITIVE, min_size=1, max_size=8))
def test_an_axis_holds_its_values_and_has_ticks_inside(values):
    scale = around(values, least_span=0.4)
    assert all(0 <= scale.at(value) <= 100 for value in values)
    order = sorted(values)
    assert [scale.at(value) for value in order] == sorted(scale.at(value) for value in order)
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= MOST_TICKS
    gaps = [other.centre - other.half - one.centre - one.half for one, other in pairwise(ticks)]
    assert all(gap >= LETTER for gap in gaps), "labels read as one"
    assert [tick.at for tick in ticks] == sorted(tick.at for tick in ticks)


def test_what_lies_beyond_an_axis_is_placed_at_its_end():
    scale = Scale(low=1.0, high=10.0, log=True)
    assert [scale.at(value) for value in (0.0, 1.0, math.sqrt(10), 10.0, 1e9)] == [0, 0, 50, 100, 100]


@given(st.lists(st.floats(0, 100), min_size=1, max_size=12))
def test_labels_keep_their_distance_and_their_order(heights):
    placed = spread_labels(sorted(heights))
    assert all(after - before >= LABEL_GAP - 0.02 for before, after in pairwise(placed))
    assert max(placed) <= 100
