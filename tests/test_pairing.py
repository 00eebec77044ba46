"""How many calls make one sample, where two processes begin, and claims on a busy processor.

The rest of pairing runs in tests/test_run.py.
"""

import os
from types import SimpleNamespace

import pytest
from records import make_samples

from kbench.isolation.candidate import RefusalError
from kbench.isolation.pairing import ATTEST_COUNTS, ATTEST_ROUNDS, Pairing, batch_size
from kbench.measure.timing import start_on


@pytest.mark.parametrize(
    ("timer", "fastest_ns", "slots", "calls"),
    [
        ("events", 1_000_000, 16, 1),
        ("events", 20_000, 16, 1),
        ("events", 19_999, 16, 10),
        ("graph", 5_000, 16, 16),
        ("events", 5_000, 4, 4),
        ("events", 0, 16, 16),
        ("host", 50_000, 16, 5),
        ("host", 4_000_000, 16, 5),
        ("host", 6_000_000, 16, 3),
        ("host", 30_000_000, 16, 1),
        ("host", 1_000_000, 1, 1),
        ("host", 0, 16, 5),
    ],
)
def test_calls_of_one_sample(timer, fastest_ns, slots, calls):
    assert batch_size(timer, fastest_ns, slots) == calls


def test_a_processor_is_where_one_starts_and_no_cage():
    before = os.sched_getaffinity(0)
    for number in range(2 * len(before)):
        start_on(number)
        assert os.sched_getaffinity(0) == before


class Busy(Pairing):
    """A CPU that other programs lengthen sixteen calls in a row on by a factor, and a single call hardly ever."""

    def __init__(self, *, claim_us: float, call_us: float, reference_us: float, delivery_us: float, factor: float):
        self._samples = make_samples(reference_ns=1e3 * reference_us, ratio=claim_us / reference_us, wobble=0.0)
        self._timer = SimpleNamespace(name="host")
        self._trial = SimpleNamespace(arena=SimpleNamespace(count=16), candidate=SimpleNamespace(log="its log"))
        self._flags = set()
        self._us = {"call": call_us, "reference": reference_us, "delivery": delivery_us}
        self._factor = factor
        self.asked = 0

    def _wall(self, calls: int) -> int:
        self.asked += 1
        return round(1e3 * calls * (self._us["call"] + self._us["delivery"]) * self._factor)

    def _reference_wall(self, calls: int) -> int:
        return round(1e3 * calls * (self._us["reference"] + self._us["delivery"]) * self._factor)

    def _copy_ns(self) -> float:
        return 10e3


@pytest.mark.parametrize(
    ("claim_us", "call_us", "factor", "verdict"),
    [
        (4000, 4000, 1, "held"),
        (4000, 4000, 3, "held"),
        (1000, 1000, 3, "held"),
        (200, 200, 1, "held"),  # delivery adds more than the slack, and adds it to the reference too
        (200, 200, 3, "held"),
        (2000, 4000, 1, "failed"),
        (2000, 4000, 3, "failed"),
        (400, 4000, 3, "failed"),
    ],
)
def test_a_busy_processor_excuses_honest_claims_and_no_others(claim_us, call_us, factor, verdict):
    pairing = Busy(claim_us=claim_us, call_us=call_us, reference_us=call_us, delivery_us=120, factor=factor)
    if verdict == "failed":
        with pytest.raises(RefusalError, match=f"claims {claim_us}.0 us a call"):
            pairing._attest()
    else:
        assert pairing._attest()[1] == verdict


@pytest.mark.parametrize(("claim_us", "attempts"), [(2500, 6), (1900, 3), (400, 3)])
def test_a_gross_lie_is_refused_sooner(claim_us, attempts):
    pairing = Busy(claim_us=claim_us, call_us=4000, reference_us=4000, delivery_us=120, factor=1)
    with pytest.raises(RefusalError):
        pairing._attest()
    assert pairing.asked == attempts * ATTEST_ROUNDS * len(ATTEST_COUNTS)


class Padded(Busy):
    """A worker that makes every request take as long as the longest, so that a call seems to add no time."""

    def _wall(self, calls: int) -> int:
        return round(1e3 * 17 * self._us["call"])


def test_a_worker_that_lengthens_its_short_requests_gains_nothing():
    pairing = Padded(claim_us=400, call_us=4000, reference_us=4000, delivery_us=0, factor=1)
    with pytest.raises(RefusalError, match=r"claims 400.0 us a call; the judge's clock says 3\d\d\d"):
        pairing._attest()
