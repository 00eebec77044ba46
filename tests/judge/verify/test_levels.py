"""Which shape carries which checks, and which misses count, with a battery that only records what it is asked for."""

import gc
import itertools
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kbench.core.diagnosis import Diagnosis
from kbench.core.errors import ReferenceRaisedError
from kbench.core.model import Cost, Status
from kbench.core.values import DRAWS, NARROW
from kbench.judge.comparison import Tally
from kbench.judge.refusal import RefusalError
from kbench.judge.verify import levels as verify_levels
from kbench.judge.verify.battery import LAYOUTS, Battery
from kbench.judge.verify.checks import LevelCheck, On, beyond_task, carrier, of_values, resembling
from kbench.judge.verify.levels import MOST_FLOPS, Levels, OtherShapes, is_long
from kbench.judge.verify.variations import RESEMBLING, VALID, VARIATIONS
from kbench.process.layouts import MOST_BYTES

WRONG = RefusalError(Status.WRONG_VALUE, "wrong", "")

ALONE: dict[str, Any] = {}
BOTH = {"cases": ["case", "other case"], "derived": ["derived"]}
DERIVED = {"derived": ["derived", "larger"]}
CARRIERS = {
    # by the part of a check: its shape where no other holds, where all hold, where derived ones hold
    On.OWN: ("own", "own", "own"),
    On.SMALLER: (None, "case", "derived"),
    On.MOST: ("own", "case", "derived"),
    On.CASE: ("own", "case", "own"),
}


@pytest.mark.parametrize("on", CARRIERS)
def test_which_shape_carries_a_check(on) -> None:
    assert tuple(carrier(on, "own", **shapes) for shapes in (ALONE, BOTH, DERIVED)) == CARRIERS[on]


@pytest.mark.parametrize(
    ("nbytes", "flops", "expected"),
    [(0, 0, False), (MOST_BYTES, MOST_FLOPS, False), (MOST_BYTES + 1, 0, True), (0, MOST_FLOPS + 1, True)],
)
def test_a_call_is_long_by_what_it_moves_or_computes(nbytes, flops, expected) -> None:
    assert is_long(Cost(dram_bytes=nbytes, flops=flops)) is expected


@pytest.mark.parametrize("is_long", [False, True])
def test_other_layouts_are_tried_at_the_own_shape_unless_its_calls_are_long(is_long) -> None:
    found = {check.on for check in beyond_task(is_long=is_long) if check.lack in LAYOUTS}
    assert found == {On.MOST if is_long else On.CASE}


def reference(name: str, nbytes: int = 1) -> Any:
    inputs = SimpleNamespace(has=lambda _: False, varies=lambda *_: True, structures={})
    return SimpleNamespace(
        name=name,
        overrides={},
        inputs=inputs,
        indices=SimpleNamespace(lengths={}),
        cost=Cost(dram_bytes=nbytes, flops=0),
        restore=lambda: None,
    )


def levels(others=(), derived=(), *, is_long: bool = False, known: OtherShapes | None = None) -> Levels:
    own = reference("own", MOST_BYTES + 1 if is_long else 1)

    def bound_to(at: Any) -> Any:
        return SimpleNamespace(reference=at, exchange=lambda *_, **__: None)

    bound: Any = SimpleNamespace(
        candidate=SimpleNamespace(weights="name", matches=True, follows=True),
        bound_to=bound_to,
        rebound=bound_to,
        reconstruct_next=lambda _: None,
        rebind_next=lambda: None,
        second_model=None,
    )
    judge: Any = SimpleNamespace(
        reference=own, other=lambda _: reference("small"), derived=lambda _: reference("small")
    )
    return Levels(bound, Battery(), judge, others, derived, known)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Names of the checks that a battery makes, and of their shapes."""
    found: list[tuple[str, str]] = []
    names = ("weights", "small_weights", "essentials", "right_once", "kept_results", "updated_in_place", "laid_out")
    for name in (*names, "in_few_places", "resembling", "vary"):

        def check(_battery: Any, trial: Any, *given: Any, name: str = name, **more: Any) -> bool:
            kind = [each.name for each in (*given, *more.values()) if hasattr(each, "name")]
            found.append(
                (" ".join([name, *kind, *(["at once"] if more.get("apart") is False else [])]), trial.reference.name)
            )
            return True

        monkeypatch.setattr(Battery, name, check)
    return found


RESEMBLE = [f"resembling {variation.name}" for variation in RESEMBLING]


@pytest.mark.parametrize(
    ("is_long", "fails_at", "expected"),
    [
        (False, "", [("weights", "own"), ("small_weights", "own"), ("essentials", "small")]),
        (
            True,
            "",
            [
                *(
                    ("weights at once", "own"),
                    ("essentials", "small"),
                    ("weights", "small"),
                    ("small_weights", "small"),
                ),
                *((code, "small") for code in RESEMBLE),
            ],
        ),
        (
            True,
            "small",
            [
                *(("weights at once", "own"), ("essentials", "small")),
                *(("weights", "own"), ("small_weights", "own")),
                *((code, "own") for code in RESEMBLE),
            ],
        ),
    ],
    ids=["all at its own shape", "most at a smaller one", "none smaller holds"],
)
def test_long_calls_are_few_and_a_smaller_shape_has_the_others(monkeypatch, asked, is_long, fails_at, expected) -> None:
    essentials = Battery.essentials

    def fails(battery: Battery, trial: Any) -> None:
        essentials(battery, trial)
        if trial.reference.name == fails_at:
            raise WRONG

    monkeypatch.setattr(Battery, "essentials", fails)
    tried = levels([{"n": 1}], is_long=is_long)
    tried.try_all(beyond_task(is_long=tried.is_long))
    most = "own" if fails_at else "small"
    values = [(f"vary {variation.name}", most) for variation in VARIATIONS]
    last = [("kept_results", most), *[("laid_out", "own" if fails_at else "small")] * 3, ("updated_in_place", most)]
    few = [("in_few_places", "own"), *([("in_few_places", "small")] if not fails_at else [])]
    together = ("vary mixed_values", "own")
    one_kind = [] if is_long else [one for one in asked if one[0].startswith("vary") and one[1] == "own"][1:2]
    found = [one for one in asked if one not in few]
    at = 2 - is_long
    assert found == [*expected[:at], together, *one_kind, *expected[at:], *values, *last]
    assert [one for one in asked if one in few] == few
    assert tuple(sorted(tried.lacks)) == (("cases",) if fails_at else ())


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("is_long", [False, True])
def test_a_further_case_has_the_results_at_other_shapes_of_the_first_one(monkeypatch, asked, is_long, fails) -> None:
    essentials = Battery.essentials

    def check(battery: Battery, trial: Any) -> None:
        essentials(battery, trial)
        if fails:
            raise WRONG

    monkeypatch.setattr(Battery, "essentials", check)
    tried = [levels([{"n": 1}], is_long=is_long)]
    tried[0].try_all(beyond_task(is_long=is_long))
    first, known = [*asked], tried[0].elsewhere
    asked.clear()
    tried.append(levels([{"n": 1}], is_long=is_long, known=known))
    tried[1].try_all(beyond_task(is_long=is_long))
    kinds = {f"vary {variation.name}" for variation in VALID}  # one of them is chosen at random
    at_own = [one for one in first if one[1] == "own" and one[0] not in kinds]
    assert [one for one in asked if one[0] not in kinds] == at_own
    assert [tuple(each.lacks) for each in tried] == [("cases",) if fails else ()] * 2
    assert tried[1].elsewhere is known


def test_weights_that_other_shapes_showed_to_be_frozen_are_not_varied(asked) -> None:
    frozen = OtherShapes(cases_held=True, derived_held=False, lacks={"frozen_weights": WRONG})
    tried = levels([{"n": 1}], known=frozen)
    tried.try_all(beyond_task())
    assert "weights" not in dict(asked)
    assert tuple(tried.lacks) == ("frozen_weights",)


def test_weights_that_are_not_followed_are_not_tried_again(monkeypatch, asked) -> None:
    def stale(*_: object, **__: object) -> None:
        raise RefusalError(Status.CRASHED, "stale")

    tried = levels([{"n": 1}])
    monkeypatch.setattr(Battery, "weights", stale)
    tried.try_all(beyond_task())
    assert tuple(sorted(tried.lacks)) == ("frozen_weights",)
    assert not {"small_weights", "updated_in_place"} & set(dict(asked))


FAR = NARROW + 0.01
MISSES = [
    ([0.0], True),
    ([FAR], False),
    ([NARROW, 0.0], True),
    ([1.01, NARROW, 0.0], True),
    ([1.01] * DRAWS, False),
    ([1.01, FAR], False),
    ([float("inf")], False),
    ([float("nan")], False),
]
"""By how much of what is allowed each draw is wrong, and whether the property is held."""


def missing(excesses: list[float]) -> Any:
    """Return a check that misses by these, one after the other."""
    left = list(excesses)

    def check(*_: object, **__: object) -> None:
        excess = left.pop(0)
        if excess:
            wrong = RefusalError(Status.WRONG_VALUE, f"{excess:g} of what is allowed", "")
            wrong.excess = excess
            raise wrong

    check.left = left
    return check


@pytest.mark.parametrize(("excesses", "held"), MISSES)
def test_a_narrow_miss_counts_where_all_draws_miss(excesses: list[float], held: bool) -> None:
    tried, check = levels([{}]), missing(excesses)
    tried.try_all([LevelCheck(lack="cases", on=On.CASES, make=check)])
    assert (tuple(tried.lacks), check.left) == (() if held else ("cases",), [])
    if not held:
        assert tried.lacks["cases"].reason == f"{excesses[-1]:g} of what is allowed"


@pytest.mark.parametrize(
    ("plain", "excess", "held"),
    [([0.0] * 8, 1.01, False), ([0.0, 1.02], 1.01, True), ([0.0, FAR], 1.01, False), ([1.02], FAR, False)],
    ids=["right without it", "as narrow without it", "far off without it", "far off with it"],
)
@pytest.mark.parametrize("name", ["laid_out", "updated_in_place"])
def test_a_narrow_miss_that_is_seen_without_an_effect_says_nothing_of_it(monkeypatch, name, plain, excess, held):
    """Values at 0.9 to 1.1 of what is allowed miss now and then, whatever else is tried."""
    tried, exchange = levels(), missing(plain)
    tried._bound.bound_to = lambda at: SimpleNamespace(reference=at, exchange=exchange)
    monkeypatch.setattr(Battery, name, missing([excess] * DRAWS))
    lack = {"laid_out": "strides", "updated_in_place": "weights_in_place"}[name]
    tried.try_all([check for check in beyond_task() if check.lack == lack])
    assert tuple(sorted(tried.lacks)) == (() if held else (lack,))


@pytest.mark.parametrize(
    ("wrong_on", "lacks", "own"),
    [("", (), 1), ("mixed_values", ("values",), 9), ("negated", ("values",), 1)],
)
def test_values_of_all_kinds_together_are_values_too(monkeypatch, asked, wrong_on, lacks, own) -> None:
    """A wrong answer counts, whichever call showed it; where it is one to all kinds, each is tried alone as well."""
    vary = Battery.vary

    def fails(battery: Battery, trial: Any, variation: Any) -> bool:
        vary(battery, trial, variation)
        if variation.name == wrong_on and (trial.reference.name == "small") == (wrong_on == "negated"):
            raise WRONG
        return True

    monkeypatch.setattr(Battery, "vary", fails)
    tried = levels([{"n": 1}])
    tried.try_all(beyond_task())
    assert tuple(sorted(tried.lacks)) == lacks
    calls = [name for name, at in asked if name.startswith("vary") and at == "own" and "mixed" not in name]
    assert len(calls) == (10 if own == 9 else 1)


def test_the_first_derived_shapes_have_all_essential_checks_and_larger_ones_one_call(asked) -> None:
    tried = levels(derived=[{"n": n} for n in range(5)])
    made = iter((reference("long"), reference("short"), reference("larger"), None, reference("larger still")))
    tried._judge.derived = lambda _: next(made)
    tried.try_all(beyond_task())
    assert [what for what in asked if what[0] in {"essentials", "right_once"}] == [
        ("essentials", "long"),
        ("essentials", "short"),
        ("right_once", "larger"),
        ("right_once", "larger still"),
    ]
    assert [finding.message for finding in tried._battery.findings] == ["the reference does not accept n=3"]


def test_a_shape_on_which_the_reference_raises_later_is_skipped(monkeypatch, asked) -> None:
    def raises(*_: object) -> None:
        raise ReferenceRaisedError("raised")

    monkeypatch.setattr(Battery, "essentials", raises)
    tried = levels(derived=[{"n": 1}])
    tried.try_all(beyond_task())
    assert [finding.code for finding in tried._battery.findings] == ["skipped_shape"]
    assert not tried.lacks
    with pytest.raises(ReferenceRaisedError):
        levels([{"n": 1}]).try_all(beyond_task())


@pytest.mark.parametrize("status", [Status.INPUT_MUTATED, Status.NONDETERMINISTIC, Status.EXITED, Status.CRASHED])
def test_what_a_kernel_does_outside_its_tensors_at_another_shape_is_no_refusal(monkeypatch, asked, status) -> None:
    def writes_everywhere(*_: object) -> None:
        raise RefusalError(status, "stray writes", "")

    monkeypatch.setattr(Battery, "right_once", writes_everywhere)
    monkeypatch.setattr(Battery, "essentials", writes_everywhere)
    tried = levels(derived=[{"n": n} for n in range(3)])
    tried.try_all(beyond_task())
    assert tuple(sorted(tried.lacks)) == ("shapes",)


@pytest.mark.parametrize("excess", [1.2, FAR])
def test_a_miss_keeps_no_tensors_of_its_call(excess: float) -> None:
    """Those of a large call are a large share of a device's memory, and the next draw has as many."""
    made: list[Any] = []

    def check(*_: object) -> None:
        assert all(one() is None for one in made)
        tensor = torch.zeros(1)
        made.append(weakref.ref(tensor))
        wrong = RefusalError(Status.WRONG_VALUE, "narrow", "")
        wrong.excess = excess
        raise wrong

    tried = levels([{}])
    gc.disable()
    try:
        tried.try_all([LevelCheck(lack="cases", on=On.CASES, make=check)])
        assert len(made) == (DRAWS if excess < NARROW else 1)
        assert made[-1]() is None
        assert tuple(tried.lacks) == ("cases",)
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("code", "lack", "excesses", "held"),
    [
        ("shifted", "values", [FAR], False),
        ("wide_range", "conditioning", [100.0, FAR, 0.0], True),
        ("wide_range", "conditioning", [100.0] * DRAWS, False),
        ("planted_nan", "nonfinite", [float("inf")], False),
    ],
)
def test_how_far_off_badly_conditioned_inputs_are_is_chance(monkeypatch, code, lack, excesses, held) -> None:
    check = missing(excesses)
    monkeypatch.setattr(Battery, "vary", check)
    tried = levels()
    tried.try_all([of_values(one, On.OWN) for one in VARIATIONS if one.name == code])
    assert (tuple(sorted(tried.lacks)), check.left) == (() if held else (lack,), [])


@pytest.mark.parametrize("is_lack", [False, True], ids=["right on the next draw", "wrong on it, too"])
@pytest.mark.parametrize(("excesses", "held"), MISSES)
def test_who_is_at_the_bound_mistakes_no_inputs_for_those_of_the_call_before(monkeypatch, excesses, held, is_lack):
    """A solution that does is no function of its input: no property that may be lacking."""
    check, tried = missing(excesses), levels()

    def resembles(*_: object, **__: object) -> None:
        try:
            check()
        except RefusalError as refusal:
            refusal.is_lack = is_lack
            raise

    monkeypatch.setattr(Battery, "resembling", resembles)
    if held or is_lack:
        tried.try_all(resembling(RESEMBLING[:1], On.OWN))
    else:
        with pytest.raises(RefusalError, match="of what is allowed"):
            tried.try_all(resembling(RESEMBLING[:1], On.OWN))
    assert check.left == []
    assert tuple(sorted(tried.lacks)) == (() if held or not is_lack else (RESEMBLING[0].lack,))


@pytest.mark.parametrize(
    ("wrong", "is_lack"),
    [
        ([Status.WRONG_VALUE], False),
        ([Status.WRONG_VALUE, Status.WRONG_VALUE], True),
        ([Status.WRONG_VALUE, Status.RAISED], False),
        ([Status.CRASHED], False),
    ],
)
def test_inputs_of_the_same_kind_tell_a_memory_from_a_miss(monkeypatch, wrong, is_lack) -> None:
    left = list(wrong)

    places: list[tuple[int, ...]] = []

    def vary(*_: object) -> None:
        places.append(_[4] if len(_) > 4 else ())
        if left:
            raise RefusalError(left.pop(0), "wrong")

    monkeypatch.setattr(Battery, "vary", vary)
    trial: Any = SimpleNamespace(exchange=lambda _: SimpleNamespace(slots=(7,)))
    with pytest.raises(RefusalError) as refused:
        Battery().resembling(trial, RESEMBLING[0])
    assert (refused.value.status, refused.value.is_lack, left) == (wrong[-1], is_lack, [])
    assert places[0] == (7,), "at the place of the call before: a memory may go by address too"


@pytest.mark.parametrize(
    ("transposed", "code", "ends"),
    [("its `w` is transposed", "unmatched_weights", ": its `w` is transposed"), ("", "frozen_weights", "they change")],
)
def test_who_transposes_a_parameter_is_not_said_to_freeze_it(transposed: str, code: str, ends: str) -> None:
    tried = levels()
    named = {"weights": "seed", "unmatched": transposed, "follows": False}
    tried._bound.candidate = SimpleNamespace(**named)
    tried.note_unmatched()
    assert tuple(sorted(tried.lacks)) == (code,)
    assert tried.lacks[code].reason.endswith(ends)


@pytest.mark.parametrize(
    ("calls", "since_s", "wrong_after", "alone"),
    [
        (5, 0.0, {"calls": 4}, True),
        (5, 0.0, {"calls": 6}, False),
        (1, 4.0, {"seconds": 1.0}, True),
        (1, 4.0, {"seconds": 60.0}, False),
    ],
)
def test_another_instance_has_as_many_calls_and_as_long(monkeypatch, calls, since_s, wrong_after, alone) -> None:
    """Who is wrong by the number of its calls, or by the time, is wrong on whatever is tried at that moment."""
    now_s = 100.0
    monkeypatch.setattr(verify_levels.time, "monotonic", lambda: now_s)
    tried, counted = levels(), itertools.count(1)
    fresh: list[bool] = []

    def exchange(**_: bool) -> None:
        nonlocal now_s
        now_s += 0.5
        if next(counted) > wrong_after.get("calls", 10**9) or now_s - 100.0 > wrong_after.get("seconds", 60.0):
            raise WRONG

    again = SimpleNamespace(exchange=exchange)
    bound = SimpleNamespace(
        reconstruct_next=lambda: fresh.append(True),
        bound_to=lambda _: again,
        tally=Tally(),
        candidate=SimpleNamespace(calls=calls),
    )
    tried._bound = bound
    tried._began = now_s - since_s
    assert tried._goes_wrong_alone(tried._own) is alone
    assert fresh == [True]


def test_another_shape_is_named_with_what_is_wrong_there() -> None:
    at, own = (
        SimpleNamespace(overrides=o, problem=SimpleNamespace(module=SimpleNamespace(**{"dim": 8} | o)))
        for o in ({"dim": 37}, {})
    )
    refusal = RefusalError(Status.WRONG_VALUE, "output[8]: got 1, want 2")
    for found, sentence in (
        (None, "right at its own shape, wrong at dim=37"),
        ("wrong in the tail", "dim=37: wrong in the tail"),
    ):
        refusal.diagnosis = Diagnosis(code="partial_block", sentence=found, evidence="3 of 9") if found else None
        verify_levels.name_shape(refusal, at, own)
        assert refusal.diagnosis.sentence.endswith(sentence)


@pytest.mark.parametrize(
    ("status", "way", "diagnosis", "code"),
    [
        (Status.WRONG_VALUE, "name", "frozen_weights", "frozen_weights"),
        (Status.WRONG_VALUE, "name", None, "frozen_weights"),
        (Status.WRONG_VALUE, "name", "missing_bias", "frozen_weights"),
        (Status.WRONG_VALUE, "order", "missing_scale", "frozen_weights"),
        (Status.WRONG_VALUE, "order", "frozen_weights", "frozen_weights"),
        (Status.WRONG_VALUE, "order", None, "unmatched_weights"),
        (Status.RAISED, "order", None, "frozen_weights"),
        (Status.CRASHED, "name", None, "frozen_weights"),
    ],
)
def test_weights_that_are_not_followed(status, way, diagnosis, code) -> None:
    tried, refusal = levels(), RefusalError(status, "stale")
    tried._bound.candidate.weights = way
    refusal.diagnosis = Diagnosis(code=diagnosis, sentence="", evidence="") if diagnosis else None
    assert tried._lack(LevelCheck(lack="frozen_weights", on=On.OWN, make=Battery.weights), refusal) == code
