"""Estimators and intervals: against scipy, against known truth, and by their properties."""

import functools
import math
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import make_samples

from kbench.core import stats
from kbench.core.model import Timing

logs = st.floats(-1, 1)
unhurried = settings(deadline=None)
"""Quantiles take milliseconds, and a test machine may be busy."""


def scipy_stats() -> ModuleType:
    """Import it where it is used: that takes over a second, and every process of the suite collects this file."""
    import scipy.stats

    return scipy.stats


def timing(**options) -> Timing:
    return Timing(samples=tuple(make_samples(**options)), timer="events", l2="flushed")


# --- distributions -------------------------------------------------------------


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 8, 9.5, 18, 100, 2000])
@pytest.mark.parametrize("probability", [0.01, 0.5, 0.6, 0.95, 0.975, 0.99, 0.9995])
def test_t_quantile_is_scipys(freedom: float, probability: float) -> None:
    expected = scipy_stats().t.ppf(probability, freedom)
    assert stats.t_quantile(probability, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("freedom", [2, 4, 8, 30])
@pytest.mark.parametrize("noncentrality", [0.5, 3, 10])
@pytest.mark.parametrize("value", [0.5, 2, 5, 12])
def test_noncentral_t_is_scipys(freedom: float, noncentrality: float, value: float) -> None:
    expected = scipy_stats().nct.cdf(value, freedom, noncentrality)
    assert stats.t_cdf(value, freedom, noncentrality) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        *((functools.partial(stats.t_quantile, p, 4), "between 0 and 1") for p in (0.0, 1.0, -1.0, 2.0)),
        (lambda: stats.pairs(make_samples(process=0) + make_samples(process=1)), "2 processes"),
        (lambda: stats.pairs([replace(make_samples()[0], t_event_ns=0)]), "0 ns"),
        (lambda: stats.process_estimate(Timing(samples=make_samples(pairs=2)[:1], timer="events", l2="")), "no pair"),
        (lambda: stats.arm_times_ns(make_samples(), "nobody"), "no samples"),
        (lambda: stats.ratio_interval([0.1]), "at least two"),
        (lambda: stats.difference_interval([0.1, 0.2], [0.3]), "at least two"),
        (lambda: stats.detection_factor(1), "one process"),
    ],
)
def test_what_cannot_be_estimated_is_an_error(ask, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ask()


# --- pairs ---------------------------------------------------------------------


def test_pairs_are_neighbours_whichever_arm_begins() -> None:
    samples = make_samples(pairs=20, ratio=1.25, wobble=0)
    found = stats.pairs(reversed(samples))
    assert len(found) == 20
    assert [pair.log_ratio for pair in found] == pytest.approx([math.log(1.25)] * 20, abs=1e-5)


def test_a_linear_drift_cancels() -> None:
    """Time creeps up by 10 % over the run; pairing leaves a thousandth of it."""
    samples = make_samples(pairs=40, ratio=1.0, wobble=0, reference_ns=1e9)
    count = len(samples)
    drifting = [replace(s, t_event_ns=round(s.t_event_ns * (1 + 0.1 * s.sequence / count))) for s in samples]
    estimate = stats.process_estimate(Timing(samples=tuple(drifting), timer="events", l2="warm"))
    assert abs(estimate) < 1e-4


def test_marked_pairs_are_counted_and_left_out() -> None:
    samples = make_samples(pairs=20, ratio=1.0, wobble=0, marked=(0, 3))
    slow = [replace(s, t_event_ns=2 * s.t_event_ns) if s.marked and s.arm == "candidate" else s for s in samples]
    assert len(stats.pair_log_ratios(slow)) == 16
    assert stats.marked_share(stats.pairs(slow)) == 0.2
    assert stats.pair_log_ratios(slow) == [0.0] * 16
    assert len(stats.arm_times_ns(slow)) == 16


@pytest.mark.parametrize(("marked", "pairs"), [(0, 20), (2, 18), (14, 6), (16, 20), (20, 20)])
def test_marks_on_nearly_all_pairs_tell_nothing_apart(marked: int, pairs: int) -> None:
    """A kernel that keeps the GPU at its power cap has no pair without a mark, and a speed-up all the same."""
    samples = make_samples(pairs=20, ratio=0.5, wobble=0, marked=tuple(range(marked // 2)))
    assert len(stats.pair_log_ratios(samples)) == pairs
    assert len(stats.arm_times_ns(samples)) == pairs
    assert len(stats.counted(s for s in samples if s.arm == "reference")) == pairs
    assert stats.process_estimate(Timing(samples=samples, timer="events", l2="warm")) == pytest.approx(math.log(0.5))


def test_a_sample_without_partner_is_left_out() -> None:
    assert len(stats.pairs(make_samples(pairs=4)[:-1])) == 3


# --- intervals -----------------------------------------------------------------


@unhurried
@given(st.lists(logs, min_size=2, max_size=12), st.sampled_from([0.9, 0.95, 0.98]))
def test_ratio_interval_is_scipys(estimates: list[float], confidence: float) -> None:
    interval = stats.ratio_interval(estimates, confidence)
    error = np.std(estimates, ddof=1) / math.sqrt(len(estimates))
    low, high = (
        np.mean(estimates) + sign * scipy_stats().t.ppf(0.5 + confidence / 2, len(estimates) - 1) * error
        for sign in (-1, 1)
    )
    assert (interval.low, interval.high) == pytest.approx((low, high), rel=1e-8, abs=1e-10)
    assert interval.processes == len(estimates)


@unhurried
@given(st.lists(logs, min_size=2, max_size=8), st.lists(logs, min_size=2, max_size=8))
def test_difference_interval_is_welchs_and_never_narrower(old: list[float], new: list[float]) -> None:
    interval = stats.difference_interval(old, new)
    assert interval.centre == pytest.approx(np.mean(new) - np.mean(old), abs=1e-12)
    if np.var(old) + np.var(new) > 1e-12:
        expected = scipy_stats().ttest_ind(new, old, equal_var=False).confidence_interval(0.95)
        assert interval.high >= expected.high - 1e-9
        assert interval.low <= expected.low + 1e-9


def test_difference_interval_with_equal_spreads_is_exact() -> None:
    old, new = [0.0, 0.01, 0.02], [0.1, 0.11, 0.12]
    expected = scipy_stats().ttest_ind(new, old, equal_var=False).confidence_interval(0.95)
    interval = stats.difference_interval(old, new)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), rel=1e-9)


def test_timings_interval_over_processes() -> None:
    timings = [timing(process=p, ratio=r, wobble=0) for p, r in enumerate([0.5, 0.51, 0.49])]
    interval = stats.timings_interval(timings)
    assert interval.processes == 3
    speedup = interval.as_speedup()
    assert speedup.low < 2.0 < speedup.high
    assert speedup.centre == pytest.approx((0.5 * 0.51 * 0.49) ** (-1 / 3), rel=1e-4)
    assert stats.timings_interval(timings[:1]) is None


@pytest.mark.parametrize(("count", "rank"), [(5, None), (6, 1), (9, 2), (20, 6), (30, 10), (1500, 712)])
def test_median_interval_ranks(count: int, rank: int | None) -> None:
    """The rank is the largest whose binomial tail stays below 2.5 %; 30 values: the 10th and the 21st."""
    interval = stats.median_interval(list(range(1, count + 1)))
    if rank is None:
        assert interval is None
    else:
        assert (interval.low, interval.high) == (rank, count + 1 - rank)
        assert scipy_stats().binom.cdf(rank - 1, count, 0.5) <= 0.025 < scipy_stats().binom.cdf(rank, count, 0.5)


def test_median_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(1000):
        interval = stats.median_interval(rng.exponential(size=25).tolist())
        hits += interval.low <= math.log(2) <= interval.high
    assert 940 <= hits <= 985  # exact coverage of ranks 8 and 18 of 25: 95.7 %


# --- when to stop --------------------------------------------------------------


def test_fixed_width_stop() -> None:
    tight, loose = [0.0, 0.0001, 0.0002], [0.0, 0.01, 0.02]
    assert stats.needs_more_processes([], 0.005, 3, 10)
    assert stats.needs_more_processes(tight[:2], 0.005, 3, 10)
    assert not stats.needs_more_processes(tight, 0.005, 3, 10)
    assert stats.needs_more_processes(loose, 0.005, 3, 10)
    assert not stats.needs_more_processes(loose, 0.005, 3, 3)
    assert not stats.needs_more_processes([0.1], 0.005, 1, 1)


@pytest.mark.parametrize(
    ("estimates", "worth"),
    [
        ([], 0.005),
        ([0.3], 0.005),
        ([0.0, 0.0001, 0.0002], 0.005),
        ([0.0, 0.05, 0.1], pytest.approx(4.3027 * 0.05 / 3**0.5, rel=1e-3)),
    ],
)
def test_a_process_is_not_measured_far_more_finely_than_processes_differ(estimates, worth):
    assert stats.worthwhile_precision(estimates, 0.005) == worth


@unhurried
@given(st.lists(logs, min_size=2, max_size=9), st.floats(-5, 5))
def test_stopping_never_looks_at_the_size_of_the_effect(estimates: list[float], shift: float) -> None:
    half = stats.ratio_interval(estimates).half_width
    if abs(half - math.log1p(0.05)) > 1e-9:
        moved = [value + shift for value in estimates]
        assert stats.needs_more_processes(moved, 0.05, 3, 10) == stats.needs_more_processes(estimates, 0.05, 3, 10)


# --- one process alone ----------------------------------------------------------

CALM = [0.1, 0.1001, 0.0999, 0.1, 0.1001, 0.0999, 0.1, 0.1]


@pytest.mark.parametrize(
    ("device", "time_ns", "flags", "share"),
    [
        ("cuda", 9e6, [], 0.006),
        ("cuda", 56e3, [], 0.006),
        ("cuda", 4.5e3, [], 0.051),
        ("cpu", 5e6, [], 0.0253),
        ("cpu", 3e5, [], 0.0618),
        ("cpu", 4e4, [], 0.162),
        # Calls whose launches the host bounds differ more.
        ("cuda", 8.5e6, ["host_bound"], 0.051),
        ("cuda", 8.5e6, ["throttled"], 0.006),
        ("cuda", 3e7, ["attestation_weak", "host_synchronising", "reference_unqueued"], 0.35),
        ("cuda", 3e7, ["attestation_weak", "host_synchronising"], 0.051),
        ("cpu", 3e5, ["reference_unqueued"], 0.35),
    ],
)
def test_of_calm_pairs_what_processes_differ_by_remains(device, time_ns, flags, share):
    assert stats.one_process_half_width(CALM, device, time_ns, flags) == pytest.approx(share, rel=0.01)
    assert stats.one_process_half_width(CALM[:1], device, time_ns, flags) is None


def test_pairs_that_vary_widen_it():
    wild = [0.0, 0.5, -0.4, 0.3, -0.2, 0.6, -0.5, 0.1]
    assert stats.one_process_half_width(wild, "cuda", 9e6) > 0.4
    assert stats.one_process_half_width(wild[:3], "cuda", 9e6) > 0.4, "too few for an interval: their range"


# --- what can be detected ------------------------------------------------------


@pytest.mark.parametrize("processes", [3, 5, 10])
def test_detection_factor_against_scipy(processes: int) -> None:
    factor = stats.detection_factor(processes)
    freedom = 2 * (processes - 1)
    critical = scipy_stats().t.ppf(0.99, freedom)
    assert scipy_stats().nct.sf(critical, freedom, factor * math.sqrt(processes / 2)) == pytest.approx(0.99, abs=1e-6)


def test_detection_factor_falls_with_processes() -> None:
    factors = [stats.detection_factor(count) for count in range(2, 13)]
    assert factors == sorted(factors, reverse=True)
    assert [round(stats.detection_factor(count), 2) for count in (3, 5, 10)] == [6.14, 3.61, 2.26]


def test_detectable_effect_is_detected_that_often() -> None:
    """Draw two runs that far apart: the bound of their difference is above zero 99 times in 100."""
    rng = np.random.default_rng(2)
    spread, processes = 0.002, 5
    effect = math.log1p(stats.detectable_effect(spread, processes))
    old, new = (rng.normal(centre, spread, (4000, processes)) for centre in (0.0, effect))
    error = np.sqrt((old.var(1, ddof=1) + new.var(1, ddof=1)) / processes)
    bounds = new.mean(1) - old.mean(1) - stats.t_quantile(0.99, 2 * (processes - 1)) * error
    assert (bounds > 0).mean() == pytest.approx(0.99, abs=0.006)
