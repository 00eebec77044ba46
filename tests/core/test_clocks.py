"""The attestation rule: what rounds on the judge's clock say of a time per call, and whose time a row may quote."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbench.core.clocks import (
    LATE_NS,
    QUOTED_FROM,
    SWITCH_NS,
    VISIBLE_NS,
    Attested,
    BaselineDelays,
    Constant,
    InputExposure,
    RequestOverhead,
    Round,
    attest,
    attest_queued_single,
    attest_requests,
    attest_single,
    baseline_delays,
    claim_is_quoted,
    claims_less,
    constant_of,
    is_slower_beside,
    measured_delays,
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


@pytest.mark.parametrize(
    ("late_us", "quoted"),
    [
        ([900] * 16, False),  # hidden in every round
        ([*[900] * 15, 500], False),
        ([900] * 9 + [0] * 7, False),  # it may have been the machine, but nobody gains by it
        ([0] * 4 + [40, 100, 300, 800] + [1000, 1100, 1500, 1700, 2000, 2200, 2500, 4000], False),
        ([0] * 9 + [900] * 7, True),
    ],
)
@pytest.mark.parametrize("where", ["flag", "look", "inputs"])
def test_delays_of_most_rounds_are_part_of_the_time(late_us, quoted, where):
    """Builds on all processors delay a few."""

    def seen(late_us: int) -> Round:
        ns = {"flag": 0, "look": 0, "inputs": 0} | {where: 1_000 * late_us}
        exposure = InputExposure(visible_ns=USUAL_VISIBLE_NS + ns["inputs"])
        late_ns = USUAL_LATE_NS + ns["look"]
        return Round(calls=1, total_ns=5_613_000 + ns["flag"], late_ns=late_ns, exposure=exposure)

    found = attest([seen(late) for late in late_us], CONSTANT, USUAL)
    assert claim_is_quoted(5_460_000.0, found) is quoted
    if not quoted:
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
    assert not claim_is_quoted(500_000.0, found)


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
    ("single_us", "reported_us"),
    [
        (10, None),
        (56.2, None),  # 1.1 * (10 + 0.2) + 20 + 25
        (56.3, 11.3),
        (61, 16),
        (5_000, 4_955),
    ],
)
def test_calls_that_take_longer_alone_have_that_time(single_us, reported_us):
    found = attest_queued_single(1e3 * single_us, Attested(ns=10_000, half_width_ns=200))
    assert (found and found.ns / 1e3) == (reported_us and pytest.approx(reported_us))


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
    ("seen_us", "own_us", "single_us", "empty_us", "expected_us"),
    [
        ([130, 130], [100, 100], 0, 20, (30, 0, 10, 0)),  # 10 of 30 are not in an empty request
        ([130, 130], [100, 100], 0, 40, (30, 0, 0, 0)),
        ([130, 134], [100, 100], 0, 0, (32, 2, 32, 0)),  # too few for an interval: half of the range
        ([130, 130], [100, 100], 190, 30, (30, 0, 0, 60)),  # one call alone
        ([130, 130], [100, 100], 90, 30, (30, 0, 0, 0)),
        ([95, 95], [100, 100], 0, 0, (0, 0, 0, 0)),
        ([200, 500, 240], [100, 380, 110], 0, 100, (120, 15, 20, 0)),  # each with what it measured itself
    ],
)
def test_the_reference_shows_what_surrounds_a_call(seen_us, own_us, single_us, empty_us, expected_us) -> None:
    seen, own = [1e3 * us for us in seen_us], [1e3 * us for us in own_us]
    found = request_overhead(seen, own, single_ns=1e3 * single_us, empty_ns=1e3 * empty_us)
    figures = (found.ns, found.half_width_ns, found.saved_ns, found.alone_ns)
    assert [ns / 1e3 for ns in figures] == pytest.approx(expected_us)


OVERHEAD = RequestOverhead(ns=30e3, half_width_ns=1e3, saved_ns=20e3, alone_ns=100e3)


def test_the_overhead_is_subtracted_and_a_candidate_may_have_saved_some_of_it() -> None:
    found = attest_requests([1030e3, 1030e3], OVERHEAD)
    assert (found.ns, found.half_width_ns) == (1000e3, 21e3)
    assert attest_requests([20e3], OVERHEAD).ns == 1


@pytest.mark.parametrize(
    ("in_a_row_us", "single_us", "found"),
    [
        (1000, 1000, "held"),
        (1000, 900, "held"),
        (1000, 1200, "held"),  # a call alone may take a tenth longer, and what the reference's does
        (1000, 1201, "weak"),
        (1000, 2100, "weak"),  # a pool of threads may have slept: twice as long, or 1 ms
        (1000, 2101, "together"),
        (4000, 8101, "together"),
        (100, 1200, "weak"),
        (5, 105, "held"),
        (5, 200, "weak"),
        (100, 1900, "together"),
    ],
)
def test_one_call_alone_beside_calls_in_a_row(in_a_row_us, single_us, found) -> None:
    assert attest_single(single_us * 1e3, in_a_row_us * 1e3, OVERHEAD) == found


@pytest.mark.parametrize(
    ("claim", "half_width", "vague", "quoted", "less"),
    [
        (1.0, 0.01, False, True, False),
        (0.98, 0.02, False, True, False),
        (0.98, 0.01, False, False, False),
        (0.97, 0.05, False, False, False),
        (0.89, 0.005, False, False, True),
        (0.97, 0.5, True, True, False),  # what cannot be refuted is reported as unconfirmed
        (0.1, 2.0, True, True, False),
        (0.9, 0.05, True, False, False),
        (1.02, 0.01, False, False, False),
        (5.0, 0.01, True, True, False),
        (1.02, 0.05, False, True, False),
        # One call a round on a GPU: the interval is wide, and nothing may hide in it.
        (0.7, 0.37, False, False, False),
        (0.5, 0.37, False, False, True),
    ],
)
def test_a_claim_is_reported_where_the_judge_sees_the_same(claim, half_width, vague, quoted, less) -> None:
    attested = Attested(ns=1e6, half_width_ns=half_width * 1e6)
    assert claim_is_quoted(claim * 1e6, attested, vague=vague) is quoted
    assert claims_less(claim * 1e6, attested) is less


@given(claim=st.floats(1e-3, 2), ns=st.floats(1e3, 1e8), half=st.floats(0, 1))
def test_no_claim_that_is_quoted_is_below_what_the_judge_saw_by_a_fiftieth(claim, ns, half):
    if claim_is_quoted(claim * ns, Attested(ns=ns, half_width_ns=half * ns)):
        assert claim * ns >= QUOTED_FROM * ns


@pytest.mark.parametrize(
    ("beside", "alone", "on_gpu", "on_cpu"),
    [
        ([1.0] * 16, [1.0] * 6, False, False),
        ([1.02] * 16, [1.0] * 6, False, False),
        ([1.08] * 16, [1.0] * 6, True, False),
        ([1.12] * 16, [1.0] * 6, True, True),
        ([1.0] * 16, [2.0] * 6, False, False),  # another program began
        ([1.0] * 9 + [9.0] * 7, [1.0] * 6, False, False),  # the median is what is reported
        ([1.0] * 2 + [2.0] * 14, [1.0] * 6, True, True),
        ([1.3] * 16, [1.0, 1.0, 1.0, 1.1, 1.4, 1.5], False, False),  # noise says nothing
        ([1.0] * 8 + [2.0] * 8, [1.0] * 6, True, True),  # unless it is the candidate's
    ],
)
def test_a_reference_is_slowed_where_it_is_quicker_once_the_candidate_is_dead(beside, alone, on_gpu, on_cpu) -> None:
    times = [1e6 * each for each in beside], [1e6 * each for each in alone]
    assert (is_slower_beside(*times, "cuda"), is_slower_beside(*times, "cpu")) == (on_gpu, on_cpu)
