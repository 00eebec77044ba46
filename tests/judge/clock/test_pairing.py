"""Pairs of reference and candidate on a clock that says what a test wants: their order, their end, what is told."""

import itertools
import math
import statistics
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kbench.core.events import RunOptions
from kbench.core.model import Sample, Timing
from kbench.core.stats import process_estimate
from kbench.judge.clock import FEW_READINGS, pairing
from kbench.judge.clock.pairing import (
    ENOUGH_PAIRS,
    SETTLED_PAIRS,
    Pairing,
    settled,
)

NS = {"reference": 200_000, "candidate": 100_000}
JUDGE_NS = {"reference": 202_000, "candidate": 104_000}
HELD = Timing(
    samples=(),
    timer="events",
    l2="flushed",
    attested_ns=104_000.0,
    attested_half_width_ns=900.0,
    attestation="held",
    wall_ns=130_000.0,
    ref_wall_ns=230_000.0,
    flags=("host_bound",),
)
WALL = Timing(samples=(), timer="wall", l2="flushed", attestation="weak")


class Clock:
    """Says the same of each call, but for a little that makes a median's interval as wide as a test wants."""

    overhead_ns = 0.0

    def __init__(
        self,
        conclusion: Timing = HELD,
        *,
        wobble: float = 0.0,
        interference: bool = False,
        ns: dict[str, int] = NS,
    ):
        self.said: list[str] = []
        self.flags: set[str] = set()
        self._conclusion, self._interference, self._ns = conclusion, interference, ns
        self._wobble = itertools.cycle([1 - wobble, 1.0, 1 + wobble])

    def prepare(self) -> None:
        self.said.append("prepare")

    def read(self, arm: str) -> Sample:
        self.said.append(arm)
        ns = self._ns[arm] if arm == "reference" else round(self._ns[arm] * next(self._wobble))
        times = {"t_event_ns": ns, "t_wall_ns": JUDGE_NS[arm], "t_host_submit_ns": 7_000}
        return Sample(process=0, block=0, sequence=0, arm=arm, calls=32, **times)

    def prove(self, event_ns: float, pairs: int) -> None:
        self.said.append(f"prove {event_ns:.0f}")
        self.proved_pairs = pairs

    def conclude(self, event_ns: float) -> Timing:
        self.said.append(f"conclude {event_ns:.0f}")
        return self._conclusion

    def kill_verify(self) -> None:
        self.said.append("kill")

    def slower_beside(self) -> bool:
        self.said.append("beside")
        return self._interference

    def close(self) -> None:
        self.said.append("close")


class Monitor:
    """Says which pairs were disturbed, by their number among those that count."""

    def __init__(self, disturbed: Any = ()):
        self._disturbed, self.pairs = disturbed, -1 - (2 * FEW_READINGS - SETTLED_PAIRS)

    def read(self) -> Any:
        return SimpleNamespace(sm_clock_mhz=1980, power_mw=300_000, temperature_c=40, throttle_reasons=0)

    def disturbed(self, _before: Any, _after: Any) -> bool:
        self.pairs += 1
        return self.pairs in self._disturbed


def trial(*, repeat: bool = False, proves_little: bool = False) -> Any:
    told: list[float] = []
    candidate = SimpleNamespace(set_reference_time=told.append, told=told)
    inputs = SimpleNamespace(repeat=repeat)
    return SimpleNamespace(candidate=candidate, reference=SimpleNamespace(inputs=inputs), proves_little=proves_little)


def run(clock: Clock, *, pairs: int = 12, disturbed: Any = (), precision: float = 0.0, **changes: Any) -> Timing:
    on_pair = changes.pop("on_pair", lambda _: None)
    on_timed = changes.pop("on_timed", lambda _: None)
    of_trial = changes.pop("of_trial", None) or trial()
    device, alone = changes.pop("device", "cuda"), changes.pop("alone", False)
    assert not changes
    of_trial.reference.device = device
    options = RunOptions(device=device, pairs=pairs, precision=precision, max_processes=1 if alone else 3)
    return Pairing(of_trial, clock, Monitor(disturbed), options, 3).run(on_pair, on_timed)


def test_blocks_are_there_and_back_in_an_order_that_is_drawn_for_each_process():
    orders = Counter()
    for _ in range(20):
        timing = run(Clock(), pairs=8)
        arms = "".join(s.arm[0] for s in timing.samples)
        assert arms == 4 * arms[:4]
        orders[arms[:4]] += 1
    assert set(orders) == {"rccr", "crrc"}


def test_both_rounds_of_a_pair_follow_a_round_of_the_same_arm():
    timing = run(Clock(), pairs=40)
    arms = [s.arm for s in timing.samples]
    assert len(arms) == 80
    for first in range(2, 80, 2):
        assert arms[first - 1] == arms[first], "so that what lingers of it is the same for both"
    assert [s.sequence for s in timing.samples] == list(range(80))
    assert {s.process for s in timing.samples} == {3}


def test_what_a_sample_holds():
    (sample, *_) = (s for s in run(Clock(), pairs=2).samples if s.arm == "candidate")
    assert (sample.t_event_ns, sample.t_wall_ns, sample.t_host_submit_ns) == (100_000, 104_000, 7_000)
    assert (sample.calls, sample.sm_clock_mhz, sample.power_mw, sample.temperature_c) == (32, 1980, 300_000, 40)


def test_it_settles_first_and_kills_last():
    clock, said, of_trial = Clock(), [], trial()
    run(clock, pairs=4, on_timed=lambda ns: said.append((ns, clock.said[-1])), of_trial=of_trial)
    assert clock.said[0] == "prepare"
    settling = 2 * 2 * FEW_READINGS
    assert Counter(clock.said[1 : 1 + settling]) == dict.fromkeys(NS, 2 * FEW_READINGS)
    assert clock.said[1 + settling :] == ["prove 100000", "kill", "conclude 100000", "beside"]
    assert said == [(100_000, "prove 100000")], "told before the worker dies, and after its claim was held"
    assert set(of_trial.candidate.told) == {200_000 / 1e9}


@pytest.mark.parametrize(("pairs", "more"), [(1, 2), (2, 0), (3, 2), (4, 0), (8, 4), (20, 16)])
def test_pairs_that_show_that_the_arms_have_settled_count(pairs, more):
    clock = Clock()
    samples = run(clock, pairs=pairs).samples
    assert clock.said.index("prove 100000") - 1 == 2 * (2 * FEW_READINGS + more)
    assert [(s.block, s.sequence) for s in samples] == [(n // 4, n) for n in range(len(samples))]
    assert pairs <= len(samples) / 2 <= pairs + 1
    assert clock.proved_pairs == len(samples) / 2, "the claims of those that count are held"
    assert [s.arm for s in samples] == clock.said[1:][-4 - len(samples) : -4]


def test_what_was_timed_before_it_settled_does_not_count():
    clock = Clock(ns={"reference": 200_000, "candidate": 100_000})
    clock._wobble = itertools.chain([1.5, 1.2], itertools.repeat(1.0))
    assert {s.t_event_ns for s in run(clock, pairs=8).samples if s.arm == "candidate"} == {100_000}


@pytest.mark.parametrize(
    ("pairs", "disturbed", "blocks", "unstable"),
    [
        (20, (), 20, False),
        (20, (3,), 22, False),  # a pair more, and its other half with it
        (20, (3, 7, 8), 24, False),
        (20, range(13), 24, False),
        (20, range(5, 100), 24, True),  # repeated up to a fifth, and no further
        (20, range(0, 100, 2), 24, False),
        (20, range(100), 20, False),  # all marked: that is how the device runs these calls
    ],
)
def test_marked_pairs_are_repeated_and_kept(pairs, disturbed, blocks, unstable):
    timing = run(Clock(), pairs=pairs, disturbed=disturbed)
    assert len(timing.samples) == 2 * blocks
    assert sum(s.marked for s in timing.samples) == 2 * sum(pair in disturbed for pair in range(blocks))
    assert ("unstable" in timing.flags) is unstable


@pytest.mark.parametrize(
    ("precision", "wobble", "pairs"),
    [
        (0.01, 0.0, ENOUGH_PAIRS),
        (0.01, 0.002, ENOUGH_PAIRS),
        (0.0, 0.0, 40),  # never precise enough
        (0.01, 0.05, 40),
    ],
)
def test_it_stops_where_more_pairs_would_tell_nothing(precision, wobble, pairs):
    assert len(run(Clock(wobble=wobble), pairs=40, precision=precision).samples) == 2 * pairs


@pytest.mark.parametrize(
    ("ns", "wobble", "pairs"), [(10_000, 0.01, ENOUGH_PAIRS), (10_000, 0.1, 40), (30_000, 0.01, 40)]
)
def test_short_calls_differ_more_between_processes_than_pairs_can_tell(ns, wobble, pairs):
    clock = Clock(wobble=wobble, ns={"reference": ns, "candidate": ns})
    assert len(run(clock, pairs=40, precision=0.001).samples) == 2 * pairs


@pytest.mark.parametrize(
    ("alone", "wobble", "flags", "pairs"),
    [
        (False, 0.001, set(), 40),
        (True, 0.001, set(), ENOUGH_PAIRS),
        (True, 0.01, set(), 40),
        (True, 0.01, {"host_synchronising"}, ENOUGH_PAIRS),
    ],
)
def test_a_process_that_none_follows_is_as_precise_as_processes_differ(alone, wobble, flags, pairs):
    clock = Clock(wobble=wobble)
    clock.flags = flags
    assert len(run(clock, pairs=40, precision=0.0001, alone=alone).samples) == 2 * pairs


def test_it_stops_when_the_time_is_up_but_not_before_there_are_enough(monkeypatch):
    monkeypatch.setattr(pairing, "PAIRS_LIMIT_S", -1.0)
    assert len(run(Clock(), pairs=40).samples) == 2 * ENOUGH_PAIRS
    assert len(run(Clock(), pairs=4).samples) == 8


def test_a_process_that_none_follows_takes_more_time_on_a_cpu(monkeypatch):
    monkeypatch.setattr(pairing, "PAIRS_LIMIT_S", -1.0)
    assert len(run(Clock(wobble=0.05), pairs=40, precision=0.001, alone=True, device="cpu").samples) == 80
    monkeypatch.setattr(pairing, "ALONE_LIMIT_S", {"cpu": -1.0})
    assert len(run(Clock(wobble=0.05), pairs=40, precision=0.001, alone=True, device="cpu").samples) == 2 * ENOUGH_PAIRS


@pytest.mark.parametrize("clock", ["events", "host", "judge"])
def test_where_events_are_not_believed_the_judges_times_are_quoted(clock):
    says = Clock(replace(HELD, timer=clock))
    says.overhead_ns = 2_000.0
    timing = run(says)
    quoted = {**JUDGE_NS, "reference": JUDGE_NS["reference"] - 2_000} if clock == "judge" else NS
    assert {(s.arm, s.t_event_ns) for s in timing.samples} == set(quoted.items())
    assert {(s.arm, s.t_wall_ns) for s in timing.samples} == set(JUDGE_NS.items())
    assert (timing.timer, timing.l2) == (clock, "flushed")


def test_plain_loops_quote_what_was_read():
    timing = run(Clock(WALL))
    assert {(s.arm, s.t_event_ns) for s in timing.samples} == set(NS.items())


@pytest.mark.parametrize("turns", [(0.2, 1.8), (1e-3, 2.0), (0.2, 0.2, 1.8, 1.8), (0.1, 1.0, 1.0, 1.9)])
@pytest.mark.parametrize(("clock_name", "device"), [("host", "cpu"), ("events", "cuda")])
def test_claims_of_a_true_median_and_any_scatter_say_nothing_more(clock_name, device, turns, monkeypatch):
    """Of ratios, a median is that of logarithms: claims that are low and high in turn have a lower one."""
    monkeypatch.setattr(pairing, "SETTLE_LIMIT_S", 0.0)
    clock = Clock(replace(HELD, timer=clock_name))
    clock._wobble = itertools.cycle(turns)
    timing = run(clock, device=device)
    claim_ns = statistics.median(float(said.split()[1]) for said in clock.said if said.startswith("prove"))
    quoted = {s.t_event_ns for s in timing.samples if s.arm == "candidate"}
    assert quoted == {round(claim_ns)}, "the judge's clock saw the same each time"
    assert process_estimate(timing) == pytest.approx(math.log(claim_ns / NS["reference"]), abs=1e-3)


def test_what_the_judges_clock_concludes_is_in_the_record():
    timing = run(Clock())
    assert (timing.attested_ns, timing.attested_half_width_ns, timing.attestation) == (104_000.0, 900.0, "held")
    assert (timing.wall_ns, timing.ref_wall_ns) == (130_000.0, 230_000.0)
    assert timing.flags == ("host_bound",)
    timing = run(Clock(WALL))
    assert (timing.attested_ns, timing.attested_half_width_ns, timing.wall_ns) == (None, None, None)
    assert timing.flags == ("attestation_weak",)


@pytest.mark.parametrize(
    ("said", "repeat", "proves_little", "attestation", "flags"),
    [
        ("held", False, False, "held", set()),
        ("held", True, False, "weak", {"inputs_repeat", "attestation_weak"}),
        ("held", False, True, "weak", {"trivial_passes", "attestation_weak"}),
        ("weak", False, False, "weak", {"attestation_weak"}),
        ("weak", True, True, "weak", {"inputs_repeat", "trivial_passes", "attestation_weak"}),
    ],
)
def test_a_time_of_no_work_is_worth_little(said, repeat, proves_little, attestation, flags):
    timing = run(
        Clock(replace(HELD, attestation=said, flags=())), of_trial=trial(repeat=repeat, proves_little=proves_little)
    )
    assert timing.attestation == attestation
    assert set(timing.flags) == flags


@pytest.mark.parametrize("interference", [False, True])
def test_a_reference_that_is_slower_beside_the_candidate_is_flagged(interference):
    assert ("interference" in run(Clock(interference=interference)).flags) is interference


def test_how_far_it_is_is_told_after_each_block():
    told: list[int] = []
    run(Clock(), pairs=8, on_pair=told.append)
    assert told == [6, 8], "after those that showed that both arms have settled"


def test_what_never_comes_to_rest_and_what_is_too_short_to_resolve_is_flagged(monkeypatch):
    monkeypatch.setattr(pairing, "SETTLE_LIMIT_S", 0.0)
    assert "drift" in run(Clock(), pairs=2).flags
    monkeypatch.setitem(pairing.RESOLVED_FROM_NS, "cuda", 100_001)
    assert "resolution_limited" in run(Clock(), pairs=2).flags


@pytest.mark.parametrize(
    ("flags", "precision", "rests"),
    [
        (set(), 0.0, True),
        ({"host_synchronising"}, 0.0, False),
        ({"reference_unqueued"}, 0.0, False),
        (set(), 0.05, False),
    ],
)
def test_who_can_tell_no_smaller_difference_needs_no_more_rest(flags, precision, rests):
    clock = Clock(ns={"reference": 200_000, "candidate": 100_000})
    clock.flags = flags
    drift = itertools.chain([1.0] * FEW_READINGS, [1.03] * FEW_READINGS, itertools.repeat(1.03))
    clock._wobble = drift
    run(clock, pairs=2, precision=precision)
    (proved,) = (n for n, said in enumerate(clock.said) if said.startswith("prove"))
    assert (proved > 1 + 2 * 2 * FEW_READINGS) is rests


@pytest.mark.parametrize(
    ("values", "within", "expected"),
    [
        ([100_000] * 5, 0.01, False),  # too few to tell
        ([100_000] * 6, 0.01, True),
        ([102_000] * 3 + [100_000] * 3, 0.01, False),
        ([102_000] * 3 + [100_000] * 3, 0.1, True),
        ([900_000] * 9 + [100_000] * 6, 0.01, True),
        ([100, 100, 100, 550, 550, 550], 0.01, True),  # below what a clock tells apart
        ([100_000, 100_000, 100_000, 100_000, 900_000, 100_000], 0.01, True),
    ],
)
def test_settled(values, within, expected):
    assert settled(values, within) is expected
