"""False alarms and power of the gate under typical noise; `tests/simulation.py` is the long version."""

import numpy as np
import pytest
from simulation import (
    CASES_PER_SUITE,
    QUIET,
    TYPICAL,
    Design,
    clock,
    gate_suite,
    gate_three_arms,
    tally,
    time_process,
)

from kbench.core.stats import process_estimate


def test_no_false_alarm_in_suites_of_fifty() -> None:
    rng = np.random.default_rng(11)
    found = tally([gate_suite(rng, TYPICAL, Design(), [0.0] * CASES_PER_SUITE) for _ in range(4)])
    assert (found.cases, found.red_suites) == (200, 0)


def test_two_percent_slower_is_found() -> None:
    rng = np.random.default_rng(12)
    found = tally([gate_suite(rng, TYPICAL, Design(), [0.02] * CASES_PER_SUITE) for _ in range(2)])
    assert found.failed >= 0.99 * found.cases


def test_three_arms_find_it_too_and_raise_no_alarm() -> None:
    rng = np.random.default_rng(13)
    design = Design(processes=5)
    null = tally([gate_three_arms(rng, TYPICAL, design, [0.0] * CASES_PER_SUITE)])
    found = tally([gate_three_arms(rng, TYPICAL, design, [0.02] * CASES_PER_SUITE)])
    assert null.red_suites == 0
    assert found.failed >= 0.99 * found.cases


def test_the_simulated_noise_is_as_large_as_it_says() -> None:
    rng = np.random.default_rng(15)
    drift = np.concatenate([clock(rng, QUIET, 400) for _ in range(200)])
    assert drift.std() == pytest.approx(QUIET.drift, rel=0.1)
    arms = {"reference": 0.0, "candidate": 0.05}
    estimates = [process_estimate(time_process(rng, TYPICAL, 0.01, 0, 30, arms)) for _ in range(300)]
    assert np.mean(estimates) == pytest.approx(0.05, abs=5e-4)
    assert 0.0015 < np.std(estimates) < 0.0028
