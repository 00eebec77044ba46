"""A worker's claim against the judge's clock: on a busy processor, of a gross lie, and of one who pads his requests."""

from types import SimpleNamespace

import pytest
from records import make_samples

from kbench.core.rightness import Seen
from kbench.isolation.attestation import ATTEST_COUNTS, ATTEST_ROUNDS, Attestation
from kbench.isolation.refusal import RefusalError


class Busy(Attestation):
    """A CPU that other programs lengthen sixteen calls in a row on by a factor, and a single call hardly ever."""

    def __init__(self, *, claim_us: float, call_us: float, reference_us: float, delivery_us: float, factor: float):
        self._samples = make_samples(reference_ns=1e3 * reference_us, ratio=claim_us / reference_us, wobble=0.0)
        self._timer = SimpleNamespace(name="host")
        self._trial = SimpleNamespace(arena=SimpleNamespace(count=16), candidate=SimpleNamespace(log="its log"))
        self.congested = False
        self._us = {"call": call_us, "reference": reference_us, "delivery": delivery_us}
        self._factor = factor
        self.asked = 0

    def wall(self, calls: int) -> int:
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
        (400, 400, 1, "weak"),
        (400, 400, 3, "held"),
        (200, 200, 1, "weak"),  # delivery is most of what a clock outside sees
        (2000, 4000, 1, "failed"),
        (2000, 4000, 3, "failed"),
        (400, 4000, 3, "failed"),
    ],
)
def test_a_busy_processor_excuses_honest_claims_and_no_others(claim_us, call_us, factor, verdict):
    attesting = Busy(claim_us=claim_us, call_us=call_us, reference_us=call_us, delivery_us=120, factor=factor)
    if verdict == "failed":
        with pytest.raises(RefusalError, match=f"claims {claim_us}.0 us a call"):
            attesting.run()
    else:
        assert attesting.run()[1] == verdict


@pytest.mark.parametrize(("claim_us", "attempts"), [(2500, 6), (1900, 3), (400, 3)])
def test_a_gross_lie_is_refused_sooner(claim_us, attempts):
    attesting = Busy(claim_us=claim_us, call_us=4000, reference_us=4000, delivery_us=120, factor=1)
    with pytest.raises(RefusalError):
        attesting.run()
    assert attesting.asked == attempts * ATTEST_ROUNDS * len(ATTEST_COUNTS)


class Padded(Busy):
    """A worker that makes every request take as long as the longest, so that a call seems to add no time."""

    def wall(self, calls: int) -> int:
        return round(1e3 * 17 * self._us["call"])


def test_a_worker_that_lengthens_its_short_requests_gains_nothing():
    attesting = Padded(claim_us=400, call_us=4000, reference_us=4000, delivery_us=0, factor=1)
    with pytest.raises(RefusalError, match=r"claims 400.0 us a call; the judge's clock says 3\d\d\d"):
        attesting.run()


class OneSlot(Busy):
    """A GPU with room for one call at a time, whose requests take `waking_us` more with a call than without."""

    def __init__(self, *, claim_us: float, call_us: float, waking_us: float):
        super().__init__(claim_us=claim_us, call_us=call_us, reference_us=5 * call_us, delivery_us=0, factor=1)
        self._timer = SimpleNamespace(name="events")
        self._trial.arena.count = 1
        self._waking_us = waking_us

    def wall(self, calls: int) -> int:
        return super().wall(calls) + round(1e3 * self._waking_us * calls)

    def _beside(self) -> tuple[float, Seen]:
        return 0.0, Seen(slope_ns=0.0, reference_ns=5e3 * self._us["call"], reference_submit_ns=1e5)


@pytest.mark.parametrize(
    ("claim_us", "call_us", "waking_us", "verdict"),
    [
        (2830, 2830, 10, "held"),
        (2830, 2830, 410, "weak"),  # seen on an H200
        (2830, 2830, 600, "failed"),
        (1415, 2830, 10, "failed"),
        (300, 600, 10, "weak"),  # half of so little could be waking
    ],
)
def test_one_call_at_a_time_is_bounded_as_nearly_as_a_request_can_be(claim_us, call_us, waking_us, verdict):
    attesting = OneSlot(claim_us=claim_us, call_us=call_us, waking_us=waking_us)
    if verdict == "failed":
        with pytest.raises(RefusalError, match=f"claims {claim_us}.0 us a call"):
            attesting.run()
    else:
        assert attesting.run()[1] == verdict
