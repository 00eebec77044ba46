"""The rules that decide right and wrong, and hold a claim against a clock: tables of examples."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kbench.core.model import Correctness
from kbench.core.values import NARROW, Ratios, codes_are_right, may_be_chance, rule, rule_all, worst
from kbench.judge.comparison import against_oracle
from kbench.numerics import elements

TABLE = [
    # contract, oracle, reference, vacuous, factor -> right, by which rule
    (0.5, None, None, False, 4, True, "held"),
    (1.1, None, None, False, 4, False, "held"),
    (0.5, 0.2, 0.1, False, 4, True, "held"),
    (1.1, 0.2, 0.1, False, 4, False, "held"),
    (0.5, 1.5, 0.1, False, 4, True, "held"),  # a narrow miss beside a contract that holds is a note
    (0.5, 4.1, 0.1, False, 4, False, "held"),
    (0.9, 1.5, 0.4, False, 4, True, "held"),
    (3.0, 2.0, 0.6, False, 4, True, "unattainable"),
    (3.0, 2.5, 0.6, False, 4, False, "unattainable"),
    (0.1, 0.9, 0.1, True, 4, True, "vacuous"),
    (0.1, 1.1, 0.1, True, 4, False, "vacuous"),
    (5.0, 1.5, 0.1, False, 16, False, "held"),
    (float("inf"), float("inf"), 0.1, False, 4, False, "held"),
]


@pytest.mark.parametrize(("contract", "oracle", "reference", "vacuous", "factor", "right", "kind"), TABLE)
def test_rule(contract, oracle, reference, vacuous, factor, right, kind) -> None:
    ratios = Ratios(contract=contract, oracle=oracle, reference=reference, vacuous=vacuous)
    ruling = rule(ratios, factor)

    assert (right, kind) == (ruling.right, ruling.contract)
    assert ruling.reason


NARROW_MISSES = [
    # contract, oracle, reference, vacuous, change -> right, by how much rule 2 is missed
    (0.9, 1.13, 0.1, False, (0.0, 0.0), True, 1.13),
    (0.9, 1.13, 0.4, False, (0.0, 0.0), True, 0.0),  # within four times the reference's own error
    (0.9, 4.0, 0.1, False, (0.0, 0.0), True, 4.0),
    (0.9, 4.01, 0.1, False, (0.0, 0.0), False, 0.0),
    (0.9, 6.4, 0.4, False, (0.0, 0.0), True, 4.0),
    (0.9, math.inf, 0.1, False, (0.0, 0.0), False, 0.0),
    (0.9, math.nan, 0.1, False, (0.0, 0.0), False, 0.0),
    (1.01, 1.13, 0.1, False, (0.0, 0.0), False, 0.0),  # the contract does not hold everywhere
    (0.9, 1.13, 0.1, True, (0.0, 0.0), False, 0.0),  # zeros would pass it
    (1.2, 2.5, 0.6, False, (0.0, 0.0), False, 0.0),  # unattainable: rule 2 decides
    (0.9, 2.5, 0.6, False, (0.0, 0.0), False, 0.0),
    (0.9, 0.1, 0.1, False, (2.0, 0.1), False, 0.0),  # the contract says nothing of a small change of an input
    (0.9, 1.13, 0.1, False, (2.0, 0.1), False, 0.0),
]


@pytest.mark.parametrize(("contract", "oracle", "reference", "vacuous", "change", "right", "narrow"), NARROW_MISSES)
def test_a_narrow_miss_beside_a_contract_that_holds_is_a_note(
    contract, oracle, reference, vacuous, change, right, narrow
) -> None:
    ratios = Ratios(contract=contract, oracle=oracle, reference=reference, vacuous=vacuous, change=change)
    ruling = rule(ratios, 4)
    assert (ruling.right, ruling.narrow) == (right, pytest.approx(narrow))
    assert rule_all([Ratios(contract=0.1), ratios], 4).narrow == ruling.narrow


MISSED = [
    # contract, oracle, reference, the largest error of the elements that miss the contract -> right, by which rule
    (1.54, 0.9, 0.45, 0.9, True, "unattainable"),
    (1.54, 1.2, 0.45, 0.9, True, "unattainable"),  # elsewhere, where the contract holds
    (1.54, 1.2, 0.45, 1.1, False, "held"),
    (1.54, 0.9, 0.45, None, False, "held"),  # fp64 is not known of all that miss
    (1.54, 1.2, 0.6, None, True, "unattainable"),
    (900.0, 700.0, 0.6, 700.0, False, "unattainable"),  # a wrong tail
    (900.0, 700.0, 0.4, 700.0, False, "held"),
]


@pytest.mark.parametrize(("contract", "oracle", "reference", "missed", "right", "kind"), MISSED)
def test_elements_that_miss_the_contract_are_judged_by_fp64(contract, oracle, reference, missed, right, kind) -> None:
    ruling = rule(Ratios(contract=contract, oracle=oracle, reference=reference, missed=missed), 4)
    assert (ruling.right, ruling.contract) == (right, kind)


CODES = [
    # elements, differing, explained, the reference's own, known -> right
    (131_072, 0, 0, 0, True, True),
    (131_072, 1, 1, 0, True, True),
    (131_072, 1, 0, 0, True, False),  # one code away where no boundary is near, or two codes
    (131_072, 2, 1, 0, True, False),
    (131_072, 1_024, 1_024, 0, True, True),
    (131_072, 1_310, 1_310, 0, True, False),  # 1 %
    (10, 1, 1, 0, True, True),
    (10, 2, 2, 0, True, False),
    (131_072, 40_000, 40_000, 15_000, True, True),  # 16 bits before the rounding: the reference itself is off
    (131_072, 40_000, 40_000, 9_000, True, False),
    (131_072, 6, 6, 0, False, True),
    (131_072, 7, 7, 0, False, False),
    (131_072, 1, 0, 0, False, False),
    (10_000_000, 164, 164, 0, False, True),
    (10_000_000, 165, 165, 0, False, False),
    (200, 1, 1, 0, False, True),
    (100, 1, 1, 0, False, False),  # 1 %
]


@pytest.mark.parametrize(("elements", "differing", "explained", "reference", "known", "right"), CODES)
def test_few_codes_may_be_one_apart_where_a_boundary_is_near(elements, differing, explained, reference, known, right):
    assert codes_are_right(elements, differing, explained, reference=reference, known=known) is right


@given(st.integers(1, 10**9), st.integers(0, 10**9), st.booleans())
def test_codes_off_in_one_of_a_hundred_elements_are_never_right(elements: int, extra: int, known: bool) -> None:
    differing = max(2, -(-elements // 100)) + extra
    assert not codes_are_right(elements, differing, differing, known=known)


COARSE = [
    # contract, oracle, reference, factor -> right, by which rule
    (0.9, 0.5, 0.3, 4, True, "held"),
    (500.0, 1.2, 0.3, 4, True, "unattainable"),  # two honest results near zero
    (500.0, 3.9, 0.3, 16, True, "unattainable"),  # partial results are rounded too
    (500.0, 4.1, 0.3, 16, False, "unattainable"),
    (500.0, 7.9, 2.0, 16, True, "unattainable"),
    (500.0, 8.1, 2.0, 16, False, "unattainable"),
]


@pytest.mark.parametrize(("contract", "oracle", "reference", "factor", "right", "kind"), COARSE)
def test_in_16_bits_the_distance_from_fp64_decides(contract, oracle, reference, factor, right, kind) -> None:
    ratios = Ratios(contract=contract, oracle=oracle, reference=reference, coarse=True)
    ruling = rule(ratios, factor)
    assert (ruling.right, ruling.contract) == (right, kind)
    if contract > 1 and reference <= 0.5:
        assert not rule(replace(ratios, coarse=False), factor).right


WORDS = "500 times the tolerance from fp64 in the change of an input, where 400 times is allowed"


def test_what_an_input_was_changed_by_is_bounded_by_itself() -> None:
    ratios = Ratios(contract=0.1, oracle=0.1, reference=0.1, change=(500.0, 100.0))
    ruling = rule(ratios, 4.0)
    assert (ruling.right, ruling.reason) == (False, WORDS)
    assert rule(ratios, 16.0).right


@pytest.mark.parametrize("terms", [16, 64, 128, 512, 2048])
@pytest.mark.parametrize("operands", ["one_sign", "zero_mean"])
def test_an_honest_order_of_summation_is_right_whichever_rule_decides(terms, operands) -> None:
    """Where the reference is within UNATTAINABLE_ABOVE, so is a sum in another order: the factor is for the rest."""
    torch.manual_seed(terms)
    make = torch.rand if operands == "one_sign" else torch.randn
    a, b = make(64, terms), make(terms, 64)
    exact, reference, sequential = a.double() @ b.double(), a @ b, torch.zeros(64, 64)
    for k in range(terms):
        sequential += a[:, k : k + 1] * b[k : k + 1]
    tolerance = elements.tolerance_for(torch.float32)
    ratios = Ratios(contract=elements.compare(sequential, reference, tolerance).ratio)
    ratios = against_oracle(ratios, sequential, reference, exact, tolerance)
    assert rule(ratios, 16.0).right, ratios


ratio = st.floats(0, 1e6)


@given(ratio, ratio, ratio, st.booleans(), st.sampled_from([4.0, 16.0]), st.floats(1, 10))
def test_a_larger_oracle_error_never_makes_it_right(contract, oracle, reference, vacuous, factor, worse) -> None:
    """Monotone: what is wrong stays wrong when the candidate gets worse."""
    ratios = Ratios(contract=contract, oracle=oracle, reference=reference, vacuous=vacuous)
    after = replace(ratios, contract=contract * worse, oracle=oracle * worse)

    assert rule(ratios, factor).right or not rule(after, factor).right


TAILS = [
    # errors of half, a quarter, ... of the elements: the candidate's, the reference's; factor, of 16 bits, right
    (((0.1, 0.1), (5.0, 2.0)), 4.0, False, True),
    (((0.9, 0.0), (1.0, 0.0)), 4.0, False, True),  # within the tolerance, whatever the reference does
    (((1.1, 0.1), (1.2, 0.2)), 4.0, False, False),
    (((125.0, 9.0), (125.0, 20.0)), 16.0, False, True),
    (((125.0, 9.0), (125.0, 20.0)), 16.0, True, False),  # rounding to 16 bits is much alike whoever does it
    (((30.0, 9.0),), 16.0, True, True),
    (((30.0, 9.0),), 2.0, True, False),
    ((), 4.0, False, True),
]


BADLY_OFF = {"contract": 300.0, "oracle": 300.0, "reference": 299.0}


@pytest.mark.parametrize(("tails", "factor", "coarse", "right"), TAILS)
def test_one_bad_element_does_not_pay_for_the_others(tails, factor: float, coarse: bool, right: bool) -> None:
    ruling = rule(Ratios(**BADLY_OFF, tails=tails, coarse=coarse), factor)
    assert ruling.right == right
    assert ("values" in ruling.reason) != right


RIGHT = Ratios(contract=0.5, oracle=0.2, reference=0.1)
ROUNDING = Ratios(contract=0.5, oracle=1e9, reference=1e9)
"""An output that is the rounding of zero: anything is as near to fp64 as the reference."""


@pytest.mark.parametrize("vacuous", [False, True])
def test_outputs_without_an_oracle_keep_the_contract(vacuous) -> None:
    wrong = Ratios(contract=2.0, vacuous=vacuous)
    assert not rule_all([RIGHT, wrong], 4.0).right
    assert rule_all([RIGHT, replace(wrong, contract=0.9)], 4.0).right


@pytest.mark.parametrize(
    ("ratios", "excess"),
    [
        ([Ratios(contract=0.9)], 0.0),
        ([Ratios(contract=1.2)], 1.2),
        ([Ratios(contract=float("inf"))], float("inf")),
        ([Ratios(contract=9.0, oracle=2.74, reference=0.6775)], 2.74 / 2.71),
        ([Ratios(contract=0.5, oracle=5.0, reference=0.1)], 5.0),
        ([Ratios(contract=9.0, oracle=1.3, reference=0.1)], 9.0),  # elsewhere than fp64 was computed
        ([Ratios(contract=1.2), Ratios(contract=5.0), Ratios(contract=0.1)], 5.0),
    ],
)
def test_by_how_much_values_are_wrong(ratios: list[Ratios], excess: float) -> None:
    assert rule_all(ratios, 4.0).excess == pytest.approx(excess)


def test_an_output_of_rounding_makes_no_room_for_another() -> None:
    assert rule_all([RIGHT, ROUNDING], 4.0) == replace(rule(ROUNDING, 4.0), output=1)
    assert not rule_all([Ratios(contract=1e4, oracle=1e4, reference=0.1), ROUNDING], 4.0).right
    assert rule_all([], 4.0).right


def test_small_zeros_within_the_contract_are_not_explained_by_rounding() -> None:
    zeros = Ratios(contract=0.5, oracle=1e5, reference=0.1, vacuous=True)
    assert not zeros.explained(4.0)
    assert Ratios(contract=3.0, oracle=1.5, reference=0.6).explained(4.0)
    assert [Ratios(contract=ratio).explained(4.0) for ratio in (0.9, 1.1)] == [True, False]


def test_what_a_large_output_loses_near_zero_pays_for_no_error_elsewhere() -> None:
    assert rule(Ratios(contract=300, oracle=900, reference=100, scaled=(1.5, 0.2)), 16.0).right
    assert not rule(Ratios(contract=300, oracle=900, reference=100, scaled=(25.0, 0.2)), 16.0).right


def test_a_reference_that_overflows_leaves_the_oracle_to_decide() -> None:
    lost = Ratios(contract=float("inf"), oracle=0.2, reference=0.1, overflows=True)
    assert rule(lost, 4.0).contract == "unattainable"
    assert rule(lost, 4.0).right
    assert not rule(replace(lost, oracle=1.5), 4.0).right


def test_errors_of_two_processes_are_told_by_the_worst() -> None:
    first = Correctness(max_abs_err=1e-6, max_rel_err=2e-3, contract_ratio=0.4, oracle_ratio=0.3, elements=10, calls=5)
    second = replace(first, max_abs_err=3e-6, max_rel_err=1e-3, oracle_ratio=0.9, contract="vacuous", calls=2)
    both = worst(first, second)
    assert both == worst(second, first)
    assert (both.max_abs_err, both.max_rel_err, both.oracle_ratio, both.contract) == (3e-6, 2e-3, 0.9, "vacuous")
    assert (both.calls, both.elements) == (7, 20)
    assert worst(first, replace(first, oracle_ratio=None)).oracle_ratio == 0.3


@pytest.mark.parametrize(("one", "other", "together"), [(None, None, None), (3, None, 3), (None, 4, 4), (3, 4, 7)])
def test_what_rows_do_not_tell_is_absent_and_no_zero(one: int | None, other: int | None, together: int | None) -> None:
    """A saved run knows its errors, but not how many elements and calls were compared."""
    parts = [Correctness(max_abs_err=0.0, max_rel_err=0.0, contract_ratio=0.0, calls=calls) for calls in (one, other)]
    found = worst(*parts)
    assert (found.calls, found.elements, found.seeds) == (together, None, None)


@pytest.mark.parametrize(
    ("excess", "misses", "calls", "chance"),
    [
        (1.36, 1, 1, True),
        (NARROW, 2, 2, True),
        (1.01, 3, 3, False),  # each call misses
        (1.01, 3, 20, True),
        (1.01, 17, 300, True),
        (1.01, 18, 300, False),
        (NARROW + 0.01, 1, 300, False),
        (float("inf"), 1, 300, False),
        (float("nan"), 1, 300, False),
    ],
)
def test_of_the_timed_calls_few_may_miss_narrowly(excess: float, misses: int, calls: int, chance: bool) -> None:
    assert may_be_chance(excess, misses, calls) is chance
