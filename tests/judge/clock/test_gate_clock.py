"""The judge's clock on a GPU over rounds that say what a test wants: sizes, constants, whose time counts."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from arms import COPY_NS, PLAIN_NS, Arm, concluded, paired

from kbench.core.clocks import Round
from kbench.core.model import Status
from kbench.judge.clock.gate_clock import REPEATS, SINGLES, TARGET_NS
from kbench.judge.clock.rounds import MOST_CALLS, LateError
from kbench.judge.refusal import RefusalError


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


def test_only_the_references_first_call_comes_before_the_device_is_theirs_alone(clock_of):
    candidate, reference = Arm(ns=10_000), Arm(ns=20_000)
    clock_of(candidate, reference).warm_up()
    assert (candidate.asked, reference.asked) == ([], [("plain", 1)])


def test_the_constant_is_of_the_references_worker(clock_of):
    candidate, reference = Arm(ns=10_000), Arm(ns=20_000)
    clock_of(candidate, reference).prepare()
    assert reference.asked.count(("gated", 0)) == REPEATS
    assert ("gated", 0) not in candidate.asked


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
