"""The clock on a CPU, with workers that take and claim what a test says: false claims, noise, calls together."""

import contextlib
import itertools
import statistics
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kbench.core.model import Timing
from kbench.judge.candidate import Reply
from kbench.judge.clock import host_clock
from kbench.judge.clock.host_clock import CALLS, LAST_REQUESTS, HostClock, calls_of_a_sample

REQUEST_US, DELIVERY_US = 150.0, 30.0
PAIRS = 8


class Worker:
    """A trial whose calls take `call_us` and whose worker claims `claimed(call_us)` of each.

    The judge reads its results where they lie, unless `fetches` is False: then the workers copy them.
    """

    def __init__(
        self,
        call_us: float,
        claimed: Callable[[float], float] = lambda us: us,
        *,
        busy: Callable[[], float] = lambda: 1.0,
        in_a_row_us: float | None = None,
        slots: int = 16,
        delivery_us: float = DELIVERY_US,
        result_bytes: int = 0,
        fetches: bool = True,
    ):
        self.fetches = fetches
        self.call_us, self.claimed, self.busy, self.delivery_us = call_us, claimed, busy, delivery_us
        self.in_a_row_us = call_us if in_a_row_us is None else in_a_row_us
        result = SimpleNamespace(nbytes=result_bytes)
        self.arena = SimpleNamespace(
            count=slots,
            outputs=lambda _slot: [result],
            overwrite_inputs=lambda _slot, but: self.asked.append("spoiled"),
        )
        self.reference = SimpleNamespace(
            arguments=lambda: (),
            expect=lambda _arguments: self.asked.append("drawn"),
            aliased=frozenset(),
            mutates=frozenset(),
        )
        self.candidate = SimpleNamespace(
            log="its log",
            worker=SimpleNamespace(pid=self),
            vary_weights=lambda *_: self.asked.append("weights"),
            push_weights=lambda _: self.asked.append("weights"),
            ask=lambda message: self.asked.append(message["op"]),
            understood=contextlib.nullcontext,
            kill=lambda: self.asked.append("kill"),
        )
        self.asked: list[Any] = []
        self.checked = 0

    def call(self, _expected: Any, *, slots: list[int], poison: bool, kept: bool, kill: bool) -> Reply:
        assert not poison, "the reference's poison would be part of what surrounds its calls"
        assert not (kept and kill), "what is dead can be read no more"
        self.asked.append(tuple(slots))
        if kill:
            self.candidate.kill()
        each_us = self.in_a_row_us if len(slots) > 1 else self.call_us
        times_us = [each_us * self.busy() for _ in slots]
        claims_us = [self.claimed(us) for us in times_us]
        delivery_us = 0.0 if kept else self.delivery_us
        wall_us = REQUEST_US * self.busy() + sum(us + delivery_us for us in times_us)
        median_ns = round(1e3 * statistics.median(claims_us or [0]))
        return Reply(
            event_ns=median_ns,
            submit_ns=median_ns,
            sum_ns=round(1e3 * sum(claims_us)),
            wall_ns=round(1e3 * wall_us),
            slots=tuple(slots),
            numbers=(),
        )

    def judge_values(self, *_: Any) -> None:
        self.checked += 1

    compare = judge_values

    def results(self, _slot: int) -> list[Any]:
        return []


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_clock, "REST_S", 0.0)


@pytest.fixture(autouse=True)
def fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_clock, "fetch", lambda worker, *_: worker.asked.append("fetched"))


def timed(candidate: Worker, reference: Worker) -> tuple[HostClock, float]:
    """Return the clock after some pairs, and the median of what the candidate claims."""
    clock: Any = HostClock(candidate, reference, fetches=candidate.fetches)
    clock.prepare()
    clock.read("candidate"), clock.read("reference")  # not among the pairs that count
    samples = [(clock.read("reference"), clock.read("candidate")) for _ in range(PAIRS)]
    return clock, statistics.median(mine.t_event_ns for _, mine in samples)


def proved(candidate: Worker, reference: Worker) -> Timing:
    clock, claim_ns = timed(candidate, reference)
    clock.prove(claim_ns, PAIRS)
    return clock.conclude(claim_ns)


@pytest.mark.parametrize(
    ("call_us", "reference_us", "attestation"),
    [
        (5000, 5000, "held"),
        (1000, 4000, "held"),
        (4000, 1000, "held"),
        (1010, 1010, "held"),
        (990, 990, "weak"),  # a batch of calls so short would not be seen
        (20, 20, "weak"),
    ],
)
def test_honest_claims(call_us: float, reference_us: float, attestation: str) -> None:
    found = proved(Worker(call_us), Worker(reference_us))
    assert (found.timer, found.attestation, found.flags) == ("host", attestation, ())
    assert found.attested_ns == pytest.approx(1e3 * call_us, abs=1)
    around_ns = 1e3 * REQUEST_US / calls_of_a_sample(1e3 * min(call_us + REQUEST_US, reference_us), 16)
    assert found.attested_half_width_ns == pytest.approx(0, abs=1), "an empty request takes as long"
    assert found.wall_ns == pytest.approx(1e3 * call_us + around_ns, abs=1)


@pytest.mark.parametrize("slots", [1, 16])
@pytest.mark.parametrize(
    ("share", "clock", "flags"),
    [(1.0, "host", set()), (0.98, "judge", set()), (0.95, "judge", set())]
    + [(share, "judge", {"claims_less"}) for share in (0.8, 0.7, 0.1, 0.0)]
    + [(1.1, "judge", set())],
)
def test_a_claim_decides_nothing(share: float, clock: str, flags: set[str], slots: int) -> None:
    """Whatever a worker says of its time: the judge's is reported where it differs, and is `held`."""
    claims = Worker(4000, lambda us: share * us, slots=slots)
    found = proved(claims, Worker(4000, slots=slots))
    assert (found.timer, found.attestation, {*found.flags}) == (clock, "held", flags)
    assert found.attested_ns == pytest.approx(4e6, abs=1)


@pytest.mark.parametrize("claimed", [lambda us: us, lambda us: us / 10], ids=["honest", "a tenth"])
@pytest.mark.parametrize("call_us", [400.0, 4000.0])
def test_a_busy_machine_refuses_nobody_and_shortens_no_time(call_us: float, claimed: Callable[[float], float]) -> None:
    """Calls of either arm take 1, 2 or 6 times as long, in turns."""
    candidate = Worker(call_us, claimed, busy=itertools.cycle([1, 1, 6, 2, 1]).__next__)
    found = proved(candidate, Worker(call_us, busy=itertools.cycle([1, 2, 1, 1, 6]).__next__))
    assert found.attested_ns >= 1e3 * call_us
    assert found.attestation == "weak" or call_us > 1000


@pytest.mark.parametrize("padding_us", [0.0, 40.0])
def test_what_surrounds_a_call_is_subtracted_and_uncertain(padding_us: float) -> None:
    arms = [Worker(2000, delivery_us=padding_us, fetches=False) for _ in range(2)]
    found = proved(*arms)
    assert (found.attestation, found.flags) == ("weak", ("copies_results",)), "a copy may have been saved"
    assert (found.attested_ns, found.attested_half_width_ns) == pytest.approx((2e6, 1e3 * padding_us), abs=1)


@pytest.mark.parametrize("aliased", [False, True])
def test_inputs_are_overwritten_before_results_are_read(aliased: bool) -> None:
    """A result may be the inputs' memory, mapped once more; not where the reference returns an input itself."""
    candidate = Worker(1000)
    candidate.reference.aliased = frozenset({"output"} if aliased else ())
    timed(candidate, Worker(1000))
    assert ("spoiled" in candidate.asked) is not aliased
    reads = [number for number, what in enumerate(candidate.asked) if what == "fetched"]
    assert all(aliased or candidate.asked[number - 1] == "spoiled" for number in reads)


@pytest.mark.parametrize("fetches", [False, True])
def test_results_that_cannot_be_read_end_the_timing(fetches: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """At whatever request: what was claimed before would be held against nothing."""
    candidate = Worker(1000, fetches=fetches)
    clock, claim_ns = timed(candidate, Worker(1000))
    clock.prove(claim_ns, PAIRS)

    def unfetchable(*_: Any) -> None:
        raise host_clock.UnreadableError

    monkeypatch.setattr(host_clock, "fetch", unfetchable)
    with pytest.raises(host_clock.UnreadableError) if fetches else contextlib.nullcontext():
        clock.kill_verify()


@pytest.mark.parametrize(
    ("alone_us", "attestation", "reported_us"),
    [(4000, "weak", 4000), (1900, "weak", 1000), (1100, "held", 1000)],
)
def test_calls_that_are_computed_as_one_count_as_one_alone(alone_us, attestation, reported_us):
    found = proved(Worker(alone_us, in_a_row_us=1001), Worker(alone_us))
    assert found.attestation == attestation
    assert found.attested_ns == pytest.approx(1e3 * reported_us, rel=2e-3)
    assert ("claims_less" in found.flags) is (reported_us == 4000)


def test_the_last_request_looks_like_others_and_every_result_is_checked() -> None:
    candidate, reference = Worker(1000), Worker(1000)
    clock, claim_ns = timed(candidate, reference)
    clock.prove(claim_ns, PAIRS)
    before = len(candidate.asked)
    clock.kill_verify()
    assert candidate.asked[before] == "weights"
    last = candidate.asked[before + 1 :]
    assert last.pop() == "kill"
    last = [slots for slots in last if isinstance(slots, tuple)]
    assert 1 <= len(last) <= LAST_REQUESTS
    assert {len(slots) for slots in last} <= {1, CALLS}
    assert "report" in candidate.asked, "timed requests do not tell what a solution replaced"
    asked = [slot for slots in candidate.asked if isinstance(slots, tuple) for slot in slots]
    assert candidate.checked == len(asked)


@pytest.mark.parametrize(
    ("fastest_ns", "slots", "calls"),
    [(5e4, 16, 15), (4e6, 16, 5), (6e6, 16, 3), (3e7, 16, 1), (1e6, 1, 1), (0, 16, 15), (0, 4, 4)],
)
def test_as_many_calls_in_a_row_as_fit(fastest_ns: float, slots: int, calls: int) -> None:
    assert calls_of_a_sample(fastest_ns, slots) == calls


@pytest.mark.parametrize("slots", [1, 16])
@pytest.mark.parametrize(("slowed", "slower"), [((), False), ((1,), True), ((CALLS,), True), ((1, CALLS), True)])
def test_a_reference_that_is_quicker_after_the_candidates_death_was_slowed(slots, slowed, slower):
    """Its single calls alone as well: by what they take longer, the candidate's may."""
    candidate, reference = Worker(1000, slots=slots), Worker(1000, slots=slots)
    beside = {"alone": 1000 * (1.3 if 1 in slowed else 1.0), "in a row": 1000 * (1.3 if CALLS in slowed else 1.0)}
    reference.call_us, reference.in_a_row_us = beside["alone"], beside["in a row"]
    clock, claim_ns = timed(candidate, reference)
    clock.prove(claim_ns, PAIRS)
    clock.kill_verify()
    reference.call_us = reference.in_a_row_us = 1000
    assert clock.slower_beside() is (slower if slots > 1 else 1 in slowed)
    assert reference.asked.count("weights") == 1, "the last requests changed them"
