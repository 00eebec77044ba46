"""The judge's clock on a GPU over rounds that say what a test wants: sizes, constants, whose time counts."""

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kbench.core.clocks import InputExposure, Round
from kbench.core.model import Status, Timing
from kbench.judge.clock import gate_clock
from kbench.judge.clock.gate_clock import (
    REPEATS,
    SINGLES,
    TARGET_NS,
    WALL_CALLS,
    DeviceClock,
    NotQueuedError,
)
from kbench.judge.clock.rounds import MOST_CALLS, QUEUED_WITHIN_S, LateError, UnmappableError
from kbench.judge.refusal import RefusalError

CONSTANT_NS = 153_000
PLAIN_NS = 200_000
HOST_NS = 4_000
COPY_NS = 3_000
PAIRS = 8


class Arm:
    """The rounds of one worker: a device's time and a host's time for each call, and what goes wrong."""

    def __init__(self, *, ns: float, count: int = 16, queue: int = 256, host_ns: float = HOST_NS):
        self.ns, self.host_ns = ns, host_ns
        self.waits_ns = 0.0
        """What a single call waits for its turn on the device."""
        self.claim = 1.0
        """Share of the device's time that its events say."""
        self.late_above = 10**9
        """Calls that cannot be queued in time."""
        self.late_replays = False
        """Whether graphs of its calls cannot be queued either."""
        self.spoilt_by: Exception | None = None
        """What comes of recording its calls."""
        self.queues_within_s = 0.0
        """Time that it takes to queue, once."""
        self.within_s: list[float] = []
        self.replays = False
        self.one_buffer = False
        self.late_ns = 165_000
        self.visible_ns, self.noise_ns = 130_000, 25_000
        self.delivers = False
        self.asked: list[tuple[str, int]] = []
        self.killed = self.closed = False
        said = SimpleNamespace(
            log="its log", vary_weights=lambda *_: self.asked.append(("weights", 0)), kill=self._kill
        )
        arena = SimpleNamespace(count=count, queue=queue)
        self.taken_back = False
        self.trial = SimpleNamespace(candidate=said, arena=arena, reference=None, take_back=self._take_back)

    def _kill(self) -> None:
        self.killed = True

    def _take_back(self, *, dead: bool) -> None:
        self.taken_back = dead and self.killed

    def _of(self, calls: int, total_ns: float) -> Round:
        per_call = self.ns + COPY_NS * self.delivers
        event_ns = round(self.claim * per_call)
        exposure = InputExposure(visible_ns=self.visible_ns + 44_000 * calls, input_bytes_shown=67_000_000 * calls)
        return Round(
            calls=calls,
            total_ns=round(total_ns),
            late_ns=self.late_ns,
            exposure=exposure,
            event_ns=event_ns,
            submit_ns=HOST_NS,
        )

    def gated(self, calls: int, *, kill: bool = False, within_s: float = QUEUED_WITHIN_S) -> Round:
        self.asked.append(("gated", calls))
        self.within_s.append(within_s)
        assert calls <= (self.trial.arena.count if self.delivers else self.trial.arena.queue)
        too_many = calls >= self.late_above and (self.late_replays or not self.replays)
        if too_many or within_s < self.queues_within_s:
            raise LateError
        if self.one_buffer and calls > 1 and not self.delivers:
            raise UnmappableError
        self.killed |= kill
        waits_ns = self.waits_ns * (calls == 1)
        return self._of(calls, CONSTANT_NS + waits_ns + calls * (self.ns + COPY_NS * self.delivers))

    def plain(self, calls: int, *, kill: bool = False) -> Round:
        if self.replays and self.spoilt_by is not None:
            raise self.spoilt_by
        self.killed |= kill
        self.asked.append(("plain", calls))
        return self._of(calls, PLAIN_NS + calls * max(self.ns, self.host_ns))

    def show_again(self, calls: int) -> InputExposure:
        self.noise_ns = -self.noise_ns
        return InputExposure(visible_ns=130_000 + 44_000 * calls + self.noise_ns, input_bytes_shown=67_000_000 * calls)

    def loop(self, calls: int, slots: int) -> int:
        self.asked.append(("loop", calls))
        return round(PLAIN_NS + calls * max(self.ns, self.host_ns))

    def wake(self) -> None:
        self.asked.append(("wake", 0))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def clock_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(candidate: Arm, reference: Arm | None = None, **options: Any) -> DeviceClock:
        arms = {"candidate": candidate, "reference": reference or Arm(ns=20_000)}
        monkeypatch.setattr(gate_clock, "Rounds", lambda trial, _cache, _draws, *, judged: arms[trial])
        monkeypatch.setattr(gate_clock, "RecordedDraws", lambda _trial: None)
        return DeviceClock("candidate", "reference", cold=False, **{"replays": False, **options})

    return make


@pytest.mark.parametrize(
    ("ns", "queue", "calls"),
    [
        (10_000, 256, 100),
        (10_000, 64, 64),
        (2_000, 256, 256),
        (100, 256, 256),
        (400_000, 256, 3),
        (900_000, 256, 2),
        (50_000_000, 256, 1),
        (10_000, 1, 1),
    ],
)
def test_a_round_takes_a_millisecond_where_there_is_room_for_so_many(clock_of, ns, queue, calls):
    clock = clock_of(Arm(ns=ns, queue=queue))
    clock.prepare()
    reading = clock.read("candidate")
    assert reading.calls == calls
    assert reading.t_event_ns == ns
    assert reading.t_wall_ns == pytest.approx(ns, abs=1)
    assert calls * ns <= 2 * max(TARGET_NS, ns)


@pytest.mark.parametrize(("late_above", "calls"), [(200, 100), (100, 50), (60, 50), (13, 12), (2, 1)])
def test_a_queue_that_is_full_is_given_fewer(clock_of, late_above, calls):
    candidate = Arm(ns=10_000)
    candidate.late_above = late_above
    clock = clock_of(candidate)
    paired(clock)
    assert clock.read("candidate").calls == calls
    assert concluded(clock, 10_000).attestation == ("held" if calls >= 25 else "weak"), "45 us are uncertain in each"


def test_only_the_references_first_call_comes_before_the_device_is_theirs_alone(clock_of):
    candidate, reference = Arm(ns=10_000), Arm(ns=20_000)
    clock_of(candidate, reference).warm_up()
    assert (candidate.asked, reference.asked) == ([], [("plain", 1)])


def test_the_constant_is_of_the_references_worker(clock_of):
    candidate, reference = Arm(ns=10_000), Arm(ns=20_000)
    clock_of(candidate, reference).prepare()
    assert reference.asked.count(("gated", 0)) == REPEATS
    assert ("gated", 0) not in candidate.asked


def concluded(clock: DeviceClock, event_ns: float) -> Timing:
    clock.prove(event_ns, PAIRS)
    clock.kill_verify()
    return clock.conclude(event_ns)


def paired(clock: DeviceClock, pairs: int = 10) -> None:
    clock.prepare()
    for _ in range(pairs):
        clock.read("reference")
        clock.read("candidate")


@pytest.mark.parametrize(
    ("claim", "clock_name"),
    [
        *((1.0, "events"), (0.99, "events"), (0.95, "judge"), (1.05, "judge"), (2.0, "judge")),
        *((0.85, "judge"), (0.5, "judge"), (0.02, "judge")),
    ],
)
def test_events_are_quoted_where_they_agree_and_decide_nothing(clock_of, claim, clock_name):
    candidate = Arm(ns=10_000)
    candidate.claim = claim
    clock = clock_of(candidate)
    paired(clock)
    said = concluded(clock, 10_000 * claim)
    assert (said.timer, said.attestation) == (clock_name, "held")
    assert ("claims_less" in said.flags) is (claim <= 0.85)
    assert said.attested_ns == pytest.approx(10_000, abs=1)
    assert 0 < said.attested_half_width_ns < 700


@pytest.mark.parametrize(("late_singles", "attestation"), [(0, "held"), (12, "held"), (40, "weak")])
def test_one_quick_single_call_is_enough(clock_of, late_singles, attestation):
    """Builds beside it delayed three of three by 2 ms, and a right kernel was refused (H200)."""
    candidate = Arm(ns=30_000)
    clock = clock_of(candidate)
    paired(clock)
    honest, left, paired_until = candidate.gated, [late_singles], len(candidate.asked)

    def gated(calls: int, **how: Any) -> Round:
        done = honest(calls, **how)
        late = calls == 1 and left[0] > 0
        left[0] -= late
        return replace(done, total_ns=done.total_ns + 2_300_000 * late)

    candidate.gated = gated
    assert concluded(clock, 30_000).attestation == attestation
    assert left[0] == max(0, late_singles - SINGLES)
    for before, asked in itertools.pairwise(candidate.asked[paired_until:]):
        assert asked != ("gated", 1) or before == ("wake", 0), "a tree that wakes up would work beside it"


@pytest.mark.parametrize("where", ["flag", "inputs"])
def test_a_single_call_hides_nothing_that_others_do_not(clock_of, monkeypatch, where):
    """Two calls are computed as one of 0.5 ms; one alone would tell, were 0.4 ms of it not behind the flag."""
    candidate = Arm(ns=260_000, queue=2)
    clock = clock_of(candidate)
    paired(clock)
    honest = candidate.gated

    def gated(calls: int, **how: Any) -> Round:
        seen = honest(calls, **how)
        if calls > 1:
            return seen
        late_ns = seen.late_ns + 400_000 * (where == "flag")
        seen = replace(seen, total_ns=seen.total_ns - 160_000, late_ns=late_ns)
        return longer_visible(seen, 400_000 * (where == "inputs"))

    monkeypatch.setattr(candidate, "gated", gated)
    clock._calls["candidate"] = 2
    said = concluded(clock, 260_000)
    assert said.attestation == "weak"
    assert said.attested_ns > 450_000


def test_who_keeps_the_device_busy_behind_the_flag_is_charged_for_it(clock_of):
    candidate = Arm(ns=1_000)
    candidate.late_ns += 9_000 * 256
    clock = clock_of(candidate)
    paired(clock)
    said = concluded(clock, 1_000)
    assert (said.timer, said.attestation) == ("judge", "weak"), "all of it is in one call alone"
    assert said.attested_ns >= 10_000
    assert "claims_less" in said.flags


@pytest.mark.parametrize(("host_ns", "host_bound"), [(4_000, False), (10_500, False), (12_000, True)])
def test_a_plain_loop_is_timed_for_both_arms(clock_of, host_ns, host_bound):
    candidate, reference = Arm(ns=10_000, host_ns=host_ns), Arm(ns=20_000)
    clock = clock_of(candidate, reference)
    paired(clock)
    said = concluded(clock, 10_000)
    assert said.wall_ns == pytest.approx(max(10_000, host_ns), rel=1e-3)
    assert said.ref_wall_ns == pytest.approx(20_000, rel=1e-3)
    assert ("host_bound" in said.flags) is host_bound
    assert max(calls for kind, calls in candidate.asked if kind == "loop") <= MOST_CALLS


@pytest.mark.parametrize(
    ("ns", "host_ns", "loops"),
    [
        (10_000, 4_000, [64, 500, 500]),
        (2_000, 4_000, [64, 512, 512]),
        (10_000, 100_000, [64, 50, 50]),
        (400_000, 4_000, [13, 13, 13]),
        (20_000_000, 4_000, [1, 1, 1]),
    ],
)
def test_plain_loops_take_as_long_whoever_is_the_slower_host_or_device(clock_of, ns, host_ns, loops):
    candidate = Arm(ns=ns, host_ns=host_ns)
    clock = clock_of(candidate, Arm(ns=1_000_000))
    paired(clock)
    concluded(clock, ns)
    assert [calls for kind, calls in candidate.asked if kind == "loop"] == loops


def test_a_plain_loop_takes_no_less_than_its_work(clock_of):
    candidate = Arm(ns=10_000)
    candidate.loop = lambda calls, slots: PLAIN_NS + calls
    clock = clock_of(candidate)
    paired(clock)
    assert concluded(clock, 10_000).wall_ns == pytest.approx(10_000, abs=1)


# --- who waits for the device ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("late", "flags"),
    [
        (("candidate",), {"host_synchronising"}),
        (("reference",), {"reference_unqueued"}),  # as a long LSTM beside a solution that records it in a CUDA graph
        (("candidate", "reference"), {"host_synchronising", "reference_unqueued"}),
    ],
)
def test_where_one_side_cannot_be_queued_both_are_timed_by_plain_loops(clock_of, late, flags):
    arms = {"candidate": Arm(ns=40_000), "reference": Arm(ns=20_000)}
    for name in late:
        arms[name].late_above = 1
    candidate, reference = arms.values()
    clock = clock_of(candidate, reference)
    paired(clock)
    assert (candidate.delivers, reference.delivers) == (True, True)
    said = concluded(clock, 40_000)
    assert (said.timer, said.attestation, said.attested_ns) == ("wall", "weak", None)
    assert {*said.flags} == flags
    assert (said.wall_ns, said.ref_wall_ns) == pytest.approx((40_000, 20_000))
    reading = clock.read("candidate")
    assert (reading.t_event_ns, reading.calls) == (reading.t_wall_ns, WALL_CALLS)


def test_who_is_late_once_on_a_busy_machine_can_be_queued(clock_of):
    candidate = Arm(ns=10_000_000)
    candidate.queues_within_s = 0.1
    clock = clock_of(candidate)
    clock.prepare()
    assert candidate.within_s == [QUEUED_WITHIN_S]
    assert clock.flags == set()


@pytest.mark.parametrize("unqueued", ["candidate", "reference"])
def test_of_an_arm_that_is_known_not_to_be_queued_nothing_is_tried(clock_of, unqueued):
    arms = {"candidate": Arm(ns=40_000), "reference": Arm(ns=20_000)}
    for arm in arms.values():
        arm.late_above = 1
    clock = clock_of(*arms.values(), replays=True, unqueued=unqueued)
    paired(clock)
    assert arms[unqueued].within_s == []
    (other,) = (arm for name, arm in arms.items() if name != unqueued)
    assert other.within_s == [QUEUED_WITHIN_S], "for its flag"
    assert clock.flags == {"host_synchronising", "reference_unqueued"}
    assert concluded(clock, 40_000).timer == "wall"


@pytest.mark.parametrize("late", [("candidate",), ("reference",), ("candidate", "reference")])
def test_calls_that_the_queue_has_no_room_for_are_queued_as_graphs(clock_of, late):
    arms = {"candidate": Arm(ns=4_000_000, host_ns=9e6), "reference": Arm(ns=8_000_000, host_ns=3e7)}
    for name in late:
        arms[name].late_above = 1
    clock = clock_of(*arms.values(), replays=True)
    paired(clock)
    assert {name for name, arm in arms.items() if arm.replays} == {*late}
    said = concluded(clock, 4_000_000)
    assert (said.timer, said.attestation) == ("events", "held")
    assert {*said.flags} == {"host_bound", *(["replayed"] if late else [])}
    assert (said.wall_ns, said.ref_wall_ns) == pytest.approx((9e6, 3e7))


def test_a_graph_that_is_queued_late_has_as_much_time_as_a_call(clock_of):
    """Else both arms would be timed by plain loops, for a hiccup of the machine."""
    arms = {"candidate": Arm(ns=4_000_000), "reference": Arm(ns=8_000_000)}
    for arm in arms.values():
        arm.late_above = 1
    arms["reference"].queues_within_s = 0.1
    clock = clock_of(**arms, replays=True)
    clock.prepare()
    assert arms["reference"].within_s[:2] == [QUEUED_WITHIN_S, QUEUED_WITHIN_S]
    assert clock.flags == {"replayed"}


def test_a_graph_is_tried_on_other_weights(clock_of):
    candidate = Arm(ns=4_000_000)
    candidate.late_above = 1
    clock_of(candidate, replays=True).prepare()
    assert candidate.asked[-2:] == [("weights", 0), ("gated", 1)]


@pytest.mark.parametrize("arm", ["candidate", "reference"])
@pytest.mark.parametrize("status", [None, Status.RAISED, Status.WRONG_VALUE, Status.EXITED])
def test_who_can_be_recorded_no_more_than_queued_is_told_from_who_is_wrong(clock_of, arm, status):
    arms = {"candidate": Arm(ns=40_000), "reference": Arm(ns=20_000)}
    arms[arm].late_above = 1
    arms[arm].late_replays = status is None
    arms[arm].spoilt_by = None if status is None else RefusalError(status, "capturing", "its log")
    reason = "graph was not queued in time" if status is None else "calls failed: capturing"
    whose = "the solution's" if arm == "candidate" else "the reference's"
    with pytest.raises(NotQueuedError, match=f"{whose} {reason}"):
        clock_of(**arms, replays=True).prepare()


def test_a_round_that_another_program_held_up_is_tried_again(clock_of):
    candidate = Arm(ns=10_000)
    clock = clock_of(candidate)
    clock.prepare()
    gated, times = candidate.gated, iter([True, False, False])

    def once_late(calls: int, *, kill: bool = False, **_: float) -> Round:
        if next(times):
            raise LateError
        return gated(calls, kill=kill)

    candidate.gated = once_late
    assert clock.read("candidate").calls == 50
    assert clock.read("candidate").calls == 50


@pytest.mark.parametrize("arm", ["candidate", "reference"])
@pytest.mark.parametrize("error", [LateError, UnmappableError])
def test_who_can_be_queued_no_more_is_timed_by_plain_loops(clock_of, arm, error):
    arms = {"candidate": Arm(ns=10_000), "reference": Arm(ns=20_000)}
    clock = clock_of(**arms)
    clock.prepare()

    gated = arms[arm].gated

    def fails(calls: int, *, kill: bool = False, **_: float) -> Round:
        if calls:
            raise error
        return gated(calls)

    arms[arm].gated = fails
    with pytest.raises(NotQueuedError) as caught:
        clock.read(arm)
    assert caught.value.arm == arm


def test_without_a_round_of_no_call_there_is_no_clock(clock_of, monkeypatch):
    reference = Arm(ns=20_000)
    gated = reference.gated

    def never_empty(calls: int, *, kill: bool = False, **_: float) -> Round:
        if not calls:
            raise LateError
        return gated(calls, kill=kill)

    reference.gated = never_empty
    with pytest.raises(RefusalError) as refused:
        clock_of(Arm(ns=10_000), reference).prepare()
    assert refused.value.status is Status.HARNESS_ERROR


# --- who has no memory of its own for each result ---------------------------------------------


def test_of_one_buffer_each_result_is_copied_and_the_copies_are_taken_off(clock_of):
    candidate, reference = Arm(ns=10_000), Arm(ns=20_000)
    candidate.one_buffer = True
    clock = clock_of(candidate, reference)
    paired(clock)
    assert reference.delivers
    reading = clock.read("candidate")
    assert reading.calls <= 16
    assert (reading.t_event_ns, reading.t_wall_ns) == (pytest.approx(10_000, abs=1), pytest.approx(10_000, abs=1))
    assert clock.read("reference").t_event_ns == pytest.approx(20_000, abs=1)
    said = concluded(clock, 10_000)
    assert said.attestation == "weak"
    assert "copies_results" in said.flags
    assert said.attested_half_width_ns > COPY_NS


def test_a_reference_that_has_one_buffer_is_not_slowed_down_alone(clock_of):
    candidate, reference = Arm(ns=10_000), Arm(ns=20_000)
    reference.one_buffer = True
    clock = clock_of(candidate, reference)
    clock.prepare()
    assert (candidate.delivers, reference.delivers) == (True, True)


# --- the end ----------------------------------------------------------------------------------


def test_the_last_round_looks_like_any_other(clock_of):
    candidate = Arm(ns=10_000)
    clock = clock_of(candidate)
    paired(clock)
    calls = candidate.asked[-1][1]
    clock.kill_verify()
    assert candidate.killed
    assert candidate.asked[-2:] == [("weights", 0), ("gated", calls)]


def test_the_last_round_may_be_held_up_too(clock_of):
    candidate = Arm(ns=10_000)
    clock = clock_of(candidate)
    clock.prepare()
    candidate.late_above = 100
    clock.kill_verify()
    assert candidate.killed
    assert candidate.asked[-1] == ("gated", 50)


@pytest.mark.parametrize(("beside_ns", "slower"), [(20_000, False), (20_500, False), (20_700, True)])
def test_the_reference_beside_the_candidate_is_compared_with_itself_alone(clock_of, beside_ns, slower):
    reference = Arm(ns=beside_ns)
    clock = clock_of(Arm(ns=10_000), reference)
    paired(clock)
    reference.ns = 20_000
    clock.kill_verify()
    assert clock.slower_beside() is slower


def longer_visible(seen: Round, ns: int) -> Round:
    return replace(seen, exposure=replace(seen.exposure, visible_ns=seen.exposure.visible_ns + ns))


@pytest.mark.parametrize("hidden", ["constant", "lateness", "visibility"])
def test_what_the_candidate_added_to_the_judges_own_work_is_found_once_it_is_dead(clock_of, hidden):
    """It keeps the device busy for 0.5 ms when it is not its turn, and works as long outside of what the clock sees."""
    candidate, reference, busy_ns = Arm(ns=10_000), Arm(ns=20_000), 500_000
    clock = clock_of(candidate, reference)
    gated = {"candidate": candidate.gated, "reference": reference.gated}

    def of_reference(calls: int, *, kill: bool = False, **_: float) -> Round:
        seen = gated["reference"](calls, kill=kill)
        if candidate.killed:
            return seen
        match hidden:
            case "constant":
                seen = replace(seen, total_ns=seen.total_ns + busy_ns)
            case "lateness":
                seen = replace(seen, late_ns=seen.late_ns + busy_ns)
            case "visibility":
                seen = longer_visible(seen, busy_ns)
        return seen

    def of_candidate(calls: int, *, kill: bool = False, **_: float) -> Round:
        seen = gated["candidate"](calls, kill=kill)
        if hidden == "lateness":
            seen = replace(seen, total_ns=seen.total_ns - busy_ns, late_ns=seen.late_ns + busy_ns)
        if hidden == "visibility":
            seen = longer_visible(replace(seen, total_ns=seen.total_ns - busy_ns), busy_ns)
        return seen

    candidate.gated, reference.gated = of_candidate, of_reference
    paired(clock)
    said = concluded(clock, 10_000)
    assert said.attested_ns == pytest.approx(10_000, rel=0.01) or said.attestation == "weak"
    assert said.attested_ns > 9_900


@pytest.mark.parametrize(("ns", "reference_ns"), [(110_000, 2_500_000), (2_500_000, 110_000), (2_500_000, 2_500_000)])
def test_rounds_that_show_more_inputs_or_fewer_are_not_charged_for_it(clock_of, ns, reference_ns):
    """Nine calls for one of the reference, and what is shown varies: 25 us, extrapolated from one, were 225 us."""
    clock = clock_of(Arm(ns=ns), Arm(ns=reference_ns))
    paired(clock)
    said = concluded(clock, ns)
    assert said.attested_ns == pytest.approx(ns, rel=1e-3)


def test_inputs_are_shown_again_at_the_size_of_the_largest_round_that_there_was(clock_of):
    """Who is late until it has one call a round must not have the time of one extrapolated to many."""
    candidate = Arm(ns=10_000)
    clock = clock_of(candidate)
    paired(clock)
    clock._calls = {"candidate": 1, "reference": 1}
    assert {each.input_bytes_shown for each in clock._shown_again()} == {0, 67_000_000 * 100}


def test_both_mappings_end(clock_of):
    arms = Arm(ns=10_000), Arm(ns=20_000)
    clock_of(*arms).close()
    assert all(arm.closed for arm in arms)
