"""Calls that cannot be queued are recorded as graphs or timed by plain loops, and late rounds are tried again."""

import pytest
from arms import Arm, concluded, paired

from kbench.core.clocks import Round
from kbench.core.model import Status
from kbench.judge.clock.gate_clock import WALL_CALLS, NotQueuedError
from kbench.judge.clock.rounds import QUEUED_WITHIN_S, LateError, UnreadableError
from kbench.judge.refusal import RefusalError


@pytest.mark.parametrize(("late_above", "calls"), [(200, 100), (100, 50), (60, 50), (13, 12), (2, 1)])
def test_a_queue_that_is_full_is_given_fewer(clock_of, late_above, calls):
    candidate = Arm(ns=10_000)
    candidate.late_above = late_above
    clock = clock_of(candidate)
    paired(clock)
    assert clock.read("candidate").calls == calls
    assert concluded(clock, 10_000).attestation == ("held" if calls >= 25 else "weak"), "45 us are uncertain in each"


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
@pytest.mark.parametrize("error", [LateError, UnreadableError])
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


def test_the_last_round_may_be_held_up_too(clock_of):
    candidate = Arm(ns=10_000)
    clock = clock_of(candidate)
    clock.prepare()
    candidate.late_above = 100
    clock.kill_verify()
    assert candidate.killed
    assert candidate.asked[-1] == ("gated", 50)
