"""A worker's claim on a CPU against the judge's clock: on a busy processor, of a gross lie, and of padded requests."""

from types import SimpleNamespace
from typing import Self

import pytest
import torch

from kbench.core.model import Status
from kbench.judge.refusal import RefusalError
from kbench.judge.timing.attestation import (
    ATTEST_COUNTS,
    ATTEST_ROUNDS,
    COPY_SPREAD,
    GROSS_ATTEMPTS,
    Attestation,
    slope_of,
)
from kbench.judge.timing.other_load import OtherLoad

COPY_US = 10.0


class Others(OtherLoad):
    """Other programs that take this share of the processors whenever somebody looks."""

    def __init__(self, share: float = 0.0):
        super().__init__(0)
        self.taken, self.looks = share, False

    def __enter__(self) -> Self:
        self.looks = True
        return self

    def __exit__(self, *_: object) -> None:
        self.looks = False

    @property
    def share(self) -> float:
        return self.taken


class Busy(Attestation):
    """A CPU that other programs lengthen sixteen calls in a row on by a factor, and a single call hardly ever."""

    def __init__(
        self,
        *,
        claim_us: float,
        call_us: float,
        reference_us: float,
        delivery_us: float,
        factor: float,
        slots: int = 16,
        others: float = 0.0,
    ):
        claims = {"candidate": [round(1e3 * claim_us)] * 20, "reference": [round(1e3 * reference_us)] * 20}
        self.others = Others(others)
        super().__init__(SimpleNamespace(count=slots), self.measured, claims, self.others)  # type: ignore[arg-type]
        self.us = {"candidate": call_us, "reference": reference_us}
        self.delivery_us, self.factor = delivery_us, factor
        self.asked: list[tuple[str, int]] = []

    def measured(self, arm: str, calls: int) -> int:
        self.asked.append((arm, calls))
        assert self.others.looks is (arm == "reference"), "a candidate that runs could seem to be other programs"
        return round(1e3 * calls * (self.us[arm] + self.delivery_us) * self.factor)

    def _copy_ns(self) -> float:
        return 1e3 * COPY_US


@pytest.mark.parametrize(
    ("claim_us", "call_us", "factor", "verdict"),
    [
        (4000, 4000, 1, "held"),
        (4000, 4000, 3, "weak"),  # only what the reference suffers excuses it
        (1000, 1000, 3, "weak"),
        (400, 400, 1, "weak"),
        (400, 400, 3, "weak"),
        (200, 200, 1, "weak"),  # delivery is most of what a clock outside sees
        (2000, 4000, 1, "failed"),
        (2600, 4000, 1, "failed"),
        (2600, 4000, 3, "weak"),  # the reference's calls are no exact measure of a busy machine
        (1900, 4000, 3, "failed"),
        (400, 4000, 3, "failed"),
    ],
)
def test_a_busy_processor_excuses_honest_claims_and_no_others(claim_us, call_us, factor, verdict):
    attesting = Busy(claim_us=claim_us, call_us=call_us, reference_us=call_us, delivery_us=120, factor=factor)
    if verdict == "failed":
        with pytest.raises(RefusalError, match=f"claims {claim_us}.0 us a call") as refused:
            attesting.run("its log")
        assert (refused.value.status, refused.value.log) == (Status.TIMING_UNATTESTED, "its log")
    else:
        slope_ns, said = attesting.run("its log")
        assert said == verdict
        # Of a congested machine the slope is what is left when the reference's own is taken for the measure.
        assert slope_ns == pytest.approx(1e3 * call_us, rel=0.3 if call_us >= 1000 else 2.5)
        assert attesting.half_width_ns == 0, "one attempt did"


@pytest.mark.parametrize(("others", "claim_us", "held"), [(0.1, 2600, False), (0.5, 2600, True), (0.5, 1900, False)])
def test_other_programs_excuse_a_claim_that_is_not_grossly_below(others, claim_us, held):
    attesting = Busy(claim_us=claim_us, call_us=4000, reference_us=4000, delivery_us=20, factor=1, others=others)
    if held:
        assert attesting.run("")[1] == "weak"
    else:
        with pytest.raises(RefusalError):
            attesting.run("")


def test_a_few_claims_of_a_busy_machine_do_not_refute_an_honest_solution():
    """`eager` on 2 cores, load 5: four samples of the reference were 2.6 times as long as the candidate's."""
    attesting = Busy(claim_us=110, call_us=110, reference_us=110, delivery_us=10, factor=2.9)
    attesting._claims["reference"] = [286_000] * 3 + [110_000]
    assert attesting.run("")[1] == "weak"
    attesting = Busy(claim_us=40, call_us=1100, reference_us=1100, delivery_us=10, factor=2.9)
    with pytest.raises(RefusalError):
        attesting.run("")


def test_only_a_reference_that_suffers_says_congested():
    calm = Busy(claim_us=4000, call_us=4000, reference_us=4000, delivery_us=120, factor=1)
    calm.run("")
    busy = Busy(claim_us=4000, call_us=4000, reference_us=4000, delivery_us=120, factor=3)
    busy.run("")
    assert (calm.congested, busy.congested) == (False, True)
    assert all(arm == "candidate" for arm, _ in calm.asked)


@pytest.mark.parametrize(("claim_us", "attempts"), [(2500, 6), (1900, GROSS_ATTEMPTS), (400, GROSS_ATTEMPTS)])
def test_a_gross_lie_is_refused_sooner(claim_us, attempts):
    attesting = Busy(claim_us=claim_us, call_us=4000, reference_us=4000, delivery_us=120, factor=1)
    with pytest.raises(RefusalError):
        attesting.run("")
    asked = sum(arm == "candidate" for arm, _ in attesting.asked)
    assert asked == attempts * ATTEST_ROUNDS * len(ATTEST_COUNTS)


class Padded(Busy):
    """A worker that makes every request take as long as the longest, so that a call seems to add no time."""

    def measured(self, arm: str, calls: int) -> int:
        self.asked.append((arm, calls))
        return round(1e3 * 17 * self.us[arm])


def test_a_worker_that_lengthens_its_short_requests_gains_nothing():
    attesting = Padded(claim_us=400, call_us=4000, reference_us=4000, delivery_us=0, factor=1)
    with pytest.raises(RefusalError, match=r"claims 400.0 us a call; the judge's clock says 3\d\d\d"):
        attesting.run("")


class Together(Busy):
    """A worker that computes the calls of one request as one, and so claims less for each."""

    def measured(self, arm: str, calls: int) -> int:
        self.asked.append((arm, calls))
        together = 1 if arm == "reference" else 0.25
        return round(1e3 * self.us[arm] * (calls if calls < 2 else calls * together))


def test_one_call_alone_is_held_against_the_claim():
    attesting = Together(claim_us=5000, call_us=20_000, reference_us=20_000, delivery_us=0, factor=1)
    with pytest.raises(RefusalError, match=r"claims 5000\.0 us a call"):
        attesting.run("")
    assert ("candidate", 0) in attesting.asked


@pytest.mark.parametrize(
    ("claim_us", "call_us", "verdict"),
    [(9000, 9000, "held"), (3000, 3000, "weak"), (4500, 9000, "failed"), (2500, 4000, "weak")],
)
def test_where_there_is_room_for_one_call_a_request_of_none_stands_beside_it(claim_us, call_us, verdict):
    attesting = Busy(claim_us=claim_us, call_us=call_us, reference_us=call_us, delivery_us=120, factor=1, slots=1)
    if verdict == "failed":
        with pytest.raises(RefusalError, match=f"claims {claim_us}.0 us a call"):
            attesting.run("")
    else:
        slope_ns, said = attesting.run("")
        assert said == verdict
        assert slope_ns == pytest.approx(1e3 * (call_us + 120 - COPY_SPREAD * COPY_US), rel=1e-3)
    assert {calls for _, calls in attesting.asked} == {0, 1}


def test_what_copying_takes_is_measured_on_outputs_of_that_size():
    outputs = [torch.empty(1 << 20)]
    arena = SimpleNamespace(count=16, outputs=lambda _: outputs)
    attesting = Attestation(arena, lambda *_: 0, {"candidate": [1], "reference": [1]}, Others())  # type: ignore[arg-type]
    assert 1e3 < attesting._copy_ns() < 1e9


def test_the_slope_is_of_the_shortest_times_seen():
    late_ns = {1: iter([9_000, 0, 7_000]), 4: iter([0, 5_000, 8_000])}
    shortest = dict.fromkeys([1, 4], float("inf"))
    assert slope_of(shortest, lambda calls: 1_000 * calls + next(late_ns[calls])) == pytest.approx(1_000)
    assert shortest == {1: 1_000, 4: 4_000}
    assert slope_of(shortest, lambda calls: 50_000) == pytest.approx(1_000), "what takes longer later changes nothing"
