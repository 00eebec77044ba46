"""The attestation rule: what rounds on the judge's clock say of a time per call, and whose time a row may quote."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbench.core.clocks import (
    LATE_NS,
    REFUTED_BELOW,
    SWITCH_NS,
    VISIBLE_NS,
    Attested,
    BaselineDelays,
    Burst,
    Constant,
    InputExposure,
    QuotedClock,
    RequestOverhead,
    Round,
    attest,
    attest_bursts,
    attest_claim,
    attest_queued_single,
    attest_single,
    baseline_delays,
    clock_to_quote,
    constant_of,
    measured_delays,
    missing_ns,
    per_call_ns,
    request_overhead,
)

CONSTANT = Constant(ns=153_000.0, half_width_ns=500.0)
USUAL_LATE_NS = 165_000
USUAL_VISIBLE_NS = 90_000
USUAL = BaselineDelays(late_ns=USUAL_LATE_NS, visible_ns=USUAL_VISIBLE_NS)


def rounds(*totals_ns: int, calls: int = 100, late_ns: int = USUAL_LATE_NS) -> list[Round]:
    return [Round(calls=calls, total_ns=total_ns, late_ns=late_ns) for total_ns in totals_ns]


@pytest.mark.parametrize(
    ("totals_ns", "ns", "half_width_ns"),
    [
        ((153_000,), 153_000, 0),
        ((152_000, 154_000), 153_000, 1_000),  # too few for an interval: half of the range
        ((152_000, 153_000, 190_000), 153_000, 19_000),
        ((152_500, 152_800, 153_000, 153_100, 153_200, 153_600, 190_000), 153_100, 18_750),
        ((150_000, *[153_000] * 12, 400_000), 153_000, 0),  # one that was disturbed moves nothing
    ],
)
def test_the_constant_is_the_median_of_empty_rounds(totals_ns, ns, half_width_ns):
    found = constant_of(rounds(*totals_ns, calls=0))
    assert (found.ns, found.half_width_ns, found.copy_ns) == (ns, half_width_ns, 0)


def test_without_an_empty_round_there_is_no_constant():
    with pytest.raises(ValueError, match="no median"):
        constant_of([])


@pytest.mark.parametrize(
    ("total_ns", "calls", "copy_ns", "per_call"),
    [
        (1_153_000, 100, 0, 10_000),
        (1_153_000, 1, 0, 1_000_000),
        (1_153_000, 100, 2_500, 7_500),
        (153_000, 100, 0, 1),  # no time is below one nanosecond
        (100_000, 100, 0, 1),
        (1_153_000, 100, 20_000, 1),
    ],
)
def test_the_time_of_a_call_is_what_is_left_of_the_round(total_ns, calls, copy_ns, per_call):
    constant = Constant(ns=153_000, half_width_ns=0, copy_ns=copy_ns)
    assert per_call_ns(Round(calls=calls, total_ns=total_ns, late_ns=0), constant) == per_call


ATTESTED = [
    # totals, calls, how late the looks were beyond the usual -> ns, half width
    ((1_153_000,), 100, 0, 10_000, (500 + SWITCH_NS + LATE_NS) / 100),
    ((1_153_000,), 1, 0, 1_000_000, 500 + SWITCH_NS + LATE_NS),
    ((1_153_000, 1_163_000), 100, 0, 10_050, 50 + (500 + SWITCH_NS + LATE_NS) / 100),
    ((1_153_000,), 100, -100_000, 10_000, (500 + SWITCH_NS + LATE_NS) / 100),  # an early look takes nothing off
    ((1_153_000,), 100, LATE_NS, 10_000, (500 + SWITCH_NS + LATE_NS) / 100),
    ((1_153_000,), 100, LATE_NS + 1, 10_000 + (LATE_NS + 1) / 100, (500 + SWITCH_NS + LATE_NS) / 100),
    ((203_000,), 100, 950_000, 10_000, (500 + SWITCH_NS + LATE_NS) / 100),  # nearly all was done behind the flag
]


@pytest.mark.parametrize(("totals_ns", "calls", "late_ns", "ns", "half_width_ns"), ATTESTED)
def test_what_comes_behind_the_flag_is_added(totals_ns, calls, late_ns, ns, half_width_ns):
    seen = rounds(*totals_ns, calls=calls, late_ns=USUAL_LATE_NS + late_ns)
    found = attest(seen, CONSTANT, USUAL)
    assert found.ns == pytest.approx(ns)
    assert found.half_width_ns == pytest.approx(half_width_ns)


@pytest.mark.parametrize(
    ("longer_ns", "added_ns"), [(-50_000, 0), (VISIBLE_NS, 0), (VISIBLE_NS + 1, VISIBLE_NS + 1), (2e6, 2e6)]
)
@pytest.mark.parametrize("input_bytes_shown", [0, 1_000_000])
def test_who_is_there_when_inputs_are_revealed_is_charged_for_it(longer_ns, added_ns, input_bytes_shown):
    usual = replace(USUAL, copy_ns_per_byte=0.001)
    exposure = InputExposure(
        visible_ns=round(USUAL_VISIBLE_NS + 0.001 * input_bytes_shown + longer_ns), input_bytes_shown=input_bytes_shown
    )
    each = Round(calls=100, total_ns=1_153_000, late_ns=USUAL_LATE_NS, exposure=exposure)
    assert attest([each], CONSTANT, usual).ns == pytest.approx(10_000 + added_ns / 100)


@pytest.mark.parametrize(
    ("without_us", "with_us", "input_bytes_shown", "visible_us", "copy_ns_per_byte"),
    [
        ([130, 131, 190], [180, 179, 181], 100_000_000, 131, 0.00049),
        ([130], [120], 100_000_000, 130, 0.0),  # noise
        ([130], [180], 1_000, 130, 50.0),  # noise, and no inputs are larger
        ([130, 131, 190], [], 0, 131, 0.0),  # a problem without tensors
    ],
)
def test_how_long_inputs_are_visible_is_measured_while_nobody_waits(
    without_us, with_us, input_bytes_shown, visible_us, copy_ns_per_byte
):
    shown = [InputExposure(visible_ns=1_000 * us) for us in without_us]
    shown += [InputExposure(visible_ns=1_000 * us, input_bytes_shown=input_bytes_shown) for us in with_us]
    found = measured_delays(rounds(1_153_000), shown)
    assert (found.visible_ns, found.copy_ns_per_byte) == (1_000 * visible_us, pytest.approx(copy_ns_per_byte))


def test_one_late_look_is_no_habit():
    late = Round(calls=100, total_ns=1_153_000, late_ns=USUAL_LATE_NS + 2_000_000)
    assert attest([*rounds(1_153_000, 1_153_000), late], CONSTANT, USUAL).ns == pytest.approx(10_000)


@pytest.mark.parametrize(
    ("late_us", "clock"),
    [
        ([900] * 16, None),  # hidden in every round
        ([*[900] * 15, 500], QuotedClock.GATE),  # the quickest round shows no more than a tenth above the claim
        ([900] * 9 + [0] * 7, QuotedClock.GATE),  # it may have been the machine, but nobody gains by it
        ([0] * 4 + [40, 100, 300, 800] + [1000, 1100, 1500, 1700, 2000, 2200, 2500, 4000], QuotedClock.GATE),
        ([0] * 9 + [900] * 7, QuotedClock.EVENTS),
    ],
)
@pytest.mark.parametrize("where", ["flag", "look", "inputs"])
def test_delays_that_vary_refute_nobody(late_us, clock, where):
    """A right kernel was refused for them beside builds on all processors."""

    def seen(late_us: int) -> Round:
        ns = {"flag": 0, "look": 0, "inputs": 0} | {where: 1_000 * late_us}
        exposure = InputExposure(visible_ns=USUAL_VISIBLE_NS + ns["inputs"])
        late_ns = USUAL_LATE_NS + ns["look"]
        return Round(calls=1, total_ns=5_613_000 + ns["flag"], late_ns=late_ns, exposure=exposure)

    found = attest([seen(late) for late in late_us], CONSTANT, USUAL)
    assert clock_to_quote(5_460_000.0, found) is clock
    if clock is not QuotedClock.EVENTS:
        assert found.ns >= 5_460_000 + 900_000


@given(st.lists(st.tuples(st.floats(0, 0.5), st.floats(0, 0.5)), min_size=8, max_size=30))
def test_work_that_is_hidden_now_here_now_there_is_added(shares):
    """Of each round's millisecond so much is done behind the flag, and so much before the gate: no median shows it."""
    seen = [
        Round(
            calls=1,
            total_ns=round(CONSTANT.ns + (1 - behind - before) * 1e6),
            late_ns=round(USUAL_LATE_NS + behind * 1e6),
            exposure=InputExposure(visible_ns=round(USUAL_VISIBLE_NS + before * 1e6)),
        )
        for behind, before in shares
    ]
    found = attest(seen, CONSTANT, USUAL)
    assert found.ns >= 1e6 - LATE_NS - VISIBLE_NS - 3
    assert clock_to_quote(500_000.0, found) is None


@pytest.mark.parametrize(
    ("beside_us", "after_us", "usual_us", "noise_us"),
    [
        ([170], [168, 171, 170, 169, 172], 170, 25),
        ([200], [168, 171, 170, 169, 172], 170, 25),  # it made the reference's looks late
        ([223], [160, 165, 168, 170, 190, 225, 226], 223, 60),  # looks vary by as much without it
        ([175], [160, 165, 168, 170, 171, 172, 420], 175, 25),  # one that the machine held up
        ([150], [168, 171, 170, 169, 172], 150, 25),
    ],
)
def test_what_is_usual_is_borne_out_after_the_candidates_death(beside_us, after_us, usual_us, noise_us):
    def looks(late_us: list[int]) -> list[Round]:
        return [Round(calls=100, total_ns=1_153_000, late_ns=1_000 * late) for late in late_us]

    found = baseline_delays(looks(beside_us), looks(after_us), [InputExposure()])
    assert (found.late_ns, found.late_noise_ns) == (1e3 * usual_us, 1e3 * noise_us)
    late = Round(calls=100, total_ns=1_153_000, late_ns=1_000 * (usual_us + noise_us))
    assert attest([late], CONSTANT, found).ns == 10_000
    assert attest([late], CONSTANT, found).half_width_ns == pytest.approx((500 + SWITCH_NS + 1e3 * noise_us) / 100)


@pytest.mark.parametrize(
    ("single_us", "verdict"),
    [
        (10, "held"),
        (56.2, "held"),  # 1.1 * (10 + 0.2) + 20 + 25
        (56.3, "weak"),
        (60.3, "weak"),  # 1.5 * (10 + 0.2) + 20 + 25
        (61, "failed"),
        (5_000, "failed"),
    ],
)
def test_calls_that_take_longer_alone_are_computed_together(single_us, verdict):
    assert attest_queued_single(1e3 * single_us, Attested(ns=10_000, half_width_ns=200)) == verdict


def test_a_copy_inside_the_round_widens_by_itself():
    """Whoever writes results where they are to be copied has no copy to make."""
    constant = Constant(ns=153_000, half_width_ns=500, copy_ns=2_000)
    found = attest(rounds(1_153_000), constant, USUAL)
    assert found.ns == pytest.approx(8_000)
    assert found.half_width_ns == pytest.approx((500 + SWITCH_NS + LATE_NS) / 100 + 2_000)


@given(
    true_us=st.floats(1, 10_000),
    calls=st.integers(1, 256),
    hidden=st.floats(0, 1),
    switch=st.floats(0, 1),
)
def test_who_raises_the_flag_early_gains_no_more_than_is_told(true_us, calls, hidden, switch):
    """The work is the same wherever it is hidden: behind the flag, or in a constant that polling shortens."""
    work_ns = 1e3 * true_us * calls
    late_ns = USUAL_LATE_NS + hidden * work_ns
    total_ns = CONSTANT.ns + (1 - hidden) * work_ns - switch * SWITCH_NS
    found = attest([Round(calls=calls, total_ns=round(total_ns), late_ns=round(late_ns))], CONSTANT, USUAL)
    assert found.ns >= 1e3 * true_us - found.half_width_ns - (LATE_NS + 2) / calls - 1


@pytest.mark.parametrize(
    ("event_ns", "ns", "half_width_ns", "clock"),
    [
        (10_000, 10_000, 200, QuotedClock.EVENTS),
        (9_800, 10_000, 200, QuotedClock.EVENTS),
        (10_200, 10_000, 200, QuotedClock.EVENTS),
        (9_799, 10_000, 200, QuotedClock.GATE),
        (10_201, 10_000, 200, QuotedClock.GATE),  # more than the judge saw: its time stands
        (8_820, 10_000, 200, QuotedClock.GATE),
        (8_819, 10_000, 200, None),
        (200, 10_000, 200, None),  # by a factor of 50
        (1, 10_000, 200, None),
        # One call a round: the interval is wide, and nothing may hide in it.
        (40_000, 56_000, 20_500, QuotedClock.GATE),
        (50_399, 56_000, 20_500, QuotedClock.GATE),
        (50_400, 56_000, 20_500, QuotedClock.GATE),
        (31_949, 56_000, 20_500, None),
        (1, 10_000, 20_500, QuotedClock.GATE),  # too short to refute anything, and no claim is believed
    ],
)
def test_whose_time_is_quoted(event_ns, ns, half_width_ns, clock):
    assert clock_to_quote(event_ns, Attested(ns=ns, half_width_ns=half_width_ns)) is clock


@given(claim=st.floats(1e-3, 2), ns=st.floats(1e3, 1e8), half=st.floats(0, 1))
def test_no_claim_that_is_quoted_is_below_what_the_judge_saw_by_a_tenth(claim, ns, half):
    if clock_to_quote(claim * ns, Attested(ns=ns, half_width_ns=half * ns)) is QuotedClock.EVENTS:
        assert claim * ns >= REFUTED_BELOW * ns


def bursts(*claims_us: float, mean: float = 1.0, overhead_us: float = 50.0) -> list[Burst]:
    """Bursts of these medians, whose means are so much longer."""
    return [
        Burst(median_ns=1e3 * us, mean_ns=1e3 * us * mean, wall_ns=1e3 * (us * mean + overhead_us)) for us in claims_us
    ]


def test_what_surrounds_calls_is_taken_from_the_reference():
    overhead = request_overhead(bursts(990, 1000, 1010, mean=1.5), empty_ns=20_000)
    assert (overhead.ns, overhead.saved_ns, overhead.stretch) == pytest.approx((50_000, 30_000, 1.5))
    quiet = request_overhead(bursts(1000, mean=0.8), empty_ns=80_000)
    assert (quiet.saved_ns, quiet.stretch, quiet.congested) == (0, 1, False)


@pytest.mark.parametrize(("means", "congested"), [([1.02] * 9 + [2.0], False), ([1.02] * 8 + [2.0, 1.3], True)])
def test_bursts_that_others_interrupt_make_a_congested_machine(means, congested):
    reference = [burst for mean in means for burst in bursts(200, mean=mean)]
    assert request_overhead(reference, empty_ns=20_000).congested is congested


@pytest.mark.parametrize(("share", "refused"), [(1.0, False), (0.1, True)])
def test_on_a_congested_machine_the_quietest_burst_decides(share, refused):
    """All of four bursts were interrupted, and eager was refused: 205 us claimed, 421 by the judge's clock."""
    busy = replace(OVERHEAD, stretch=1.0, congested=True)
    told = [
        replace(one, median_ns=one.median_ns * share)
        for each in (2.0, 2.3, 1.4, 2.1, 1.02)
        for one in bursts(205, mean=each)
    ]
    attested = attest_bursts(205e3 * share, told[:4], busy, before=told[4:])
    assert attested.ns == pytest.approx(205e3 * 2.05, rel=1e-3)
    assert (attest_claim(205e3 * share, attested, copied_bytes=0) == "failed") is refused
    short_ns = 0 if share == 1 else 205e3 * (1.02 - share) - 3e3
    assert missing_ns(205e3 * share, attested, busy) == pytest.approx(short_ns, rel=1e-3)
    calm = replace(busy, congested=False)
    assert missing_ns(205e3 * share, attested, calm) > 0


OVERHEAD = RequestOverhead(ns=50_000, half_width_ns=3_000, saved_ns=30_000, stretch=1.5, congested=False)


@pytest.mark.parametrize(
    ("shares", "median_us", "judge_us", "least_us", "unsure_us"),
    [
        ([1.0] * 8, 400, 400, 400, 0),
        ([0.1] * 8, 40, 400, 400, 0),
        ([1.0] * 5 + [0.1] * 3, 400, 400, 400, 3600),  # what is claimed less of some is seen
        ([1.0] * 3 + [0.1] * 5, 40, 400, 400, 180),  # a true claim among them excuses none
    ],
)
def test_each_burst_is_held_against_its_own_claim(shares, median_us, judge_us, least_us, unsure_us):
    claims = [
        replace(each, median_ns=each.median_ns * share)
        for each, share in zip(bursts(*[400] * 8, mean=1.5), shares, strict=True)
    ]
    found = attest_bursts(1e3 * median_us, claims, OVERHEAD)
    assert found.ns == pytest.approx(1e3 * judge_us)
    assert found.least_ns == pytest.approx(1e3 * (least_us - 2))
    assert found.half_width_ns == pytest.approx(1e3 * (unsure_us + 32 + (OVERHEAD.stretch - 1) * median_us))


def test_what_other_programs_take_of_a_burst_is_in_its_claim_and_its_wall_time():
    busy = [400, 1200, 390, 2800, 410, 900, 400, 405]
    honest = attest_bursts(407_500, bursts(*busy, mean=1.5), OVERHEAD)
    assert (honest.ns, honest.least_ns) == pytest.approx((407_500, 388_000))
    liar = [replace(each, median_ns=each.median_ns / 10) for each in bursts(*busy, mean=1.5)]
    assert attest_bursts(40_750, liar, OVERHEAD).least_ns == pytest.approx(388_000)


@pytest.mark.parametrize(
    ("claim_us", "judge_us", "overhead_us", "short_us"),
    [
        (4000, 4000, 50, 0),
        (4500, 4000, 50, 0),
        (3920, 4000, 50, 0),
        (3919, 4000, 50, 81),
        (3600, 4000, 50, 400),  # not refuted, and not quoted
        (10, 24, 50, 0),  # two workers' overheads differ by as much
        (10, 26, 50, 16),
        (1000, 1300, 3000, 0),
        (1000, 1320, 3000, 320),
    ],
)
def test_what_a_claim_is_short_of(claim_us, judge_us, overhead_us, short_us) -> None:
    overhead = replace(OVERHEAD, ns=1e3 * overhead_us)
    attested = Attested(ns=1e3 * judge_us, half_width_ns=1e3)
    assert missing_ns(1e3 * claim_us, attested, overhead) == pytest.approx(1e3 * short_us)


def test_a_result_in_another_layout_may_take_longer_to_deliver() -> None:
    """A channels_last convolution claimed 587 us of 1,648, which deliver 16 MB."""
    attested = Attested(ns=1_648_000, half_width_ns=1e5, least_ns=1_600_000)
    assert attest_claim(587_000, attested, copied_bytes=1 << 24) == "weak"
    assert attest_claim(587_000, attested, copied_bytes=1 << 20) == "failed"


def test_what_is_less_than_nothing_says_nothing():
    assert attest_bursts(1_000, bursts(1, overhead_us=-30), OVERHEAD).ns == 1


@pytest.mark.parametrize(
    ("claim_us", "judge_us", "half_us", "least_us", "expected"),
    [
        (4000, 4000, 100, 3950, "held"),
        (4000, 3000, 100, 2950, "held"),
        (3600, 4000, 100, 3950, "held"),
        (3599, 4000, 100, 3950, "weak"),
        (4000, 4000, 801, 3950, "weak"),  # the judge hardly knows
        (999, 999, 1, 998, "weak"),  # too short to tell a batch by a single call
        (2800, 4000, 100, 4000, "weak"),
        (2799, 4000, 100, 4000, "failed"),
        (2764, 4000, 100, 3950, "failed"),
        (2799, 4000, 900, 3900, "weak"),
        (20, 121, 1, 120, "weak"),  # apart by no more than a layout may add to handing over a result
        (20, 122, 1, 121, "failed"),
    ],
)
def test_attest_on_a_host(claim_us, judge_us, half_us, least_us, expected) -> None:
    attested = Attested(ns=1e3 * judge_us, half_width_ns=1e3 * half_us, least_ns=1e3 * least_us)
    assert attest_claim(1e3 * claim_us, attested, copied_bytes=0) == expected


@pytest.mark.parametrize(
    ("single_us", "lost_ms", "verdict"),
    [(2000, 0, "failed"), (2000, 10, "weak"), (15_000, 10, "weak"), (15_500, 10, "failed")],
)
def test_one_call_may_have_lost_its_processor(single_us, lost_ms, verdict) -> None:
    assert attest_single(100e3, single_us * 1e3, lost_ns=lost_ms * 1e6) == verdict


@pytest.mark.parametrize(("claim_us", "lost_us", "verdict"), [(81, 0, "failed"), (81, 667, "weak"), (1, 667, "weak")])
def test_calls_in_a_row_may_have_lost_it_too(claim_us, lost_us, verdict) -> None:
    """A solution that prints 50 kB a call, beside four busy loops: a claim of 81 us, and 266 by the judge's clock."""
    seen = Attested(ns=266e3, half_width_ns=20e3, least_ns=230e3)
    assert attest_claim(claim_us * 1e3, seen, copied_bytes=0, lost_ns=lost_us * 1e3) == verdict


@pytest.mark.parametrize(
    ("claim_us", "single_us", "verdict"),
    [
        (1000, 1000, "held"),
        (1000, 1330, "held"),  # a call alone may take a tenth longer and 0.1 ms, and a claim is a tenth below
        (1000, 1340, "weak"),
        (1000, 3300, "weak"),  # a pool of threads may have slept: half as long again and 0.2 ms refute nothing
        (1000, 3400, "failed"),
        (5, 115, "held"),
        (5, 200, "weak"),
        (100, 1900, "weak"),  # tenfold, but not by a millisecond
        (100, 2000, "failed"),
    ],
)
def test_one_call_alone_may_take_no_longer_than_claimed(claim_us, single_us, verdict) -> None:
    assert attest_single(claim_us * 1e3, single_us * 1e3) == verdict
