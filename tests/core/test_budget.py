"""What a run may spend on measuring, and what it says when that is spent."""

import math

import pytest

from kbench.core.budget import advice, affords_more, is_far_off


@pytest.mark.parametrize(
    ("measured_s", "processes", "budget_s", "more"),
    [(6, 3, 20, True), (15, 3, 20, True), (15.1, 3, 20, False), (30, 3, 20, False), (18, 9, 20, True)],
)
def test_another_process_has_to_fit(measured_s, processes, budget_s, more):
    assert affords_more(measured_s, processes, budget_s) is more


@pytest.mark.parametrize(
    ("half_width", "measured_s", "processes", "far"),
    [
        pytest.param(0.004, 10.0, 5, False, id="within reach"),
        pytest.param(0.008, 10.0, 5, False, id="seven times as many, which few processes cannot tell from four"),
        pytest.param(0.05, 10.0, 5, True, id="278 times as many"),
        pytest.param(0.05, 6.0, 4, False, id="too few to know"),
        pytest.param(math.inf, 10.0, 5, True, id="no interval at all"),
    ],
)
def test_what_no_budget_brings_is_not_waited_for(half_width, measured_s, processes, far):
    assert is_far_off(half_width, 0.003, measured_s, processes, budget_s=20.0) is far


def test_the_advice_can_be_typed_and_says_what_it_brings():
    said = advice(0.006, 0.003, 20.0, 4)
    assert said.startswith("stopped after 20 s of measuring, 4 processes, at ± 0.6 %")
    assert "`--budget 96s --max-processes 16` would bring about ± 0.3 %" in said


def test_hours_of_measuring_are_no_advice():
    assert "try a quieter device or a larger case" in advice(0.05, 0.003, 20.0, 4)
