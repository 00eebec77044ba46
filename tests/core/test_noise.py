"""What is known of the speed-up of one process: its own pairs, and what processes differ by."""

import pytest

from kbench.core.noise import of_one_process

CALM = [0.1, 0.1001, 0.0999, 0.1, 0.1001, 0.0999, 0.1, 0.1]


@pytest.mark.parametrize(
    ("device", "time_ns", "share"),
    [
        ("cuda", 9e6, 0.006),
        ("cuda", 56e3, 0.006),
        ("cuda", 4.5e3, 0.051),
        ("cpu", 5e6, 0.0253),
        ("cpu", 3e5, 0.0618),
        ("cpu", 4e4, 0.162),
    ],
)
def test_of_calm_pairs_what_processes_differ_by_remains(device, time_ns, share):
    assert of_one_process(CALM, device, time_ns) == pytest.approx(share, rel=0.01)


def test_pairs_that_vary_widen_it():
    wild = [0.0, 0.5, -0.4, 0.3, -0.2, 0.6, -0.5, 0.1]
    assert of_one_process(wild, "cuda", 9e6) > 0.4
    assert of_one_process(wild[:3], "cuda", 9e6) > 0.4, "too few for an interval: their range"


def test_one_pair_tells_nothing():
    assert of_one_process([0.1], "cuda", 9e6) is None
    assert of_one_process([], "cpu", 9e6) is None


@pytest.mark.parametrize(
    ("device", "time_ns", "flags", "share"),
    [
        ("cuda", 8.5e6, ["host_bound"], 0.051),
        ("cuda", 8.5e6, ["outliers"], 0.006),
        ("cuda", 3e7, ["attestation_weak", "host_synchronising", "reference_unqueued"], 0.35),
        ("cuda", 3e7, ["attestation_weak", "host_synchronising"], 0.051),
        ("cpu", 3e5, ["reference_unqueued"], 0.35),
    ],
)
def test_calls_whose_launches_the_host_bounds_differ_more(device, time_ns, flags, share):
    assert of_one_process(CALM, device, time_ns, flags) == pytest.approx(share, rel=0.01)
