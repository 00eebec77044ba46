"""Which shape has which calls, with a battery that only tells what it was asked for."""

import contextlib
import gc
import itertools
import time
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kbench.core.diagnosis import Diagnosis
from kbench.core.model import Status
from kbench.core.values import NARROW
from kbench.judge.refusal import RefusalError
from kbench.judge.verify.levels import NARROW_DRAWS, Levels, needs_other_shape
from kbench.judge.verify.variations import RESEMBLING, VARIATIONS

WRONG = RefusalError(Status.WRONG_VALUE, "wrong", "")


class Battery:
    """Tells what it was asked for, and where."""

    def __init__(self, fails_at: str = ""):
        self.asked: list[tuple[str, str]] = []
        self._fails_at = fails_at

    def weights(self, trial: Any, *, apart: bool) -> None:
        self.asked.append((f"weights{'' if apart else ', all at once'}", trial.reference.name))

    def small_weights(self, trial: Any, *, draws: int) -> None:
        assert draws > 1
        self.asked.append(("small weights", trial.reference.name))

    def essentials(self, trial: Any) -> None:
        self.asked.append(("essentials", trial.reference.name))
        if trial.reference.name == self._fails_at:
            raise WRONG

    def kept_results(self, trial: Any) -> None:
        self.asked.append(("kept results", trial.reference.name))

    def updated_in_place(self, trial: Any) -> None:
        self.asked.append(("updated in place", trial.reference.name))

    def vary(self, _trial: Any, _variation: Any, _seeds: Any) -> bool:
        return True

    def resembling(self, trial: Any, variation: Any) -> RefusalError | None:
        self.asked.append((variation.name, trial.reference.name))
        return None

    def right_once(self, trial: Any) -> None:
        self.asked.append(("one call", trial.reference.name))

    def other_numbers(self, _: Any) -> None:
        return None

    def other_indices(self, _: Any) -> None:
        return None


def reference(name: str) -> Any:
    inputs = SimpleNamespace(has=lambda _: True, varies=lambda *_: True)
    return SimpleNamespace(
        name=name,
        overrides={},
        inputs=inputs,
        arguments=lambda _: [],
        cost=SimpleNamespace(dram_bytes=1 << 30),
        restore=lambda: None,
    )


def levels(battery: Battery) -> Levels:
    own, small = reference("own"), reference("small")
    bound: Any = SimpleNamespace(
        bound_to=lambda at: SimpleNamespace(reference=at, exchange=lambda *_, **__: None),
        rebound=lambda at: SimpleNamespace(reference=at, exchange=lambda *_, **__: None),
        reconstruct_next=lambda _: None,
        rebind_next=lambda: None,
        load=lambda _: None,
    )
    candidate: Any = SimpleNamespace(weights="name", follows=False)
    judge: Any = SimpleNamespace(reference=own, other=lambda _: small)
    return Levels(bound, battery, candidate, judge)


RESEMBLE = [variation.name for variation in RESEMBLING]
LAST = {at: [("kept results", at), ("updated in place", at)] for at in ("own", "small")}


@pytest.mark.parametrize(
    ("thrifty", "fails_at", "asked"),
    [
        (False, "", [("weights", "own"), ("small weights", "own"), ("essentials", "small"), *LAST["small"]]),
        (
            True,
            "",
            [
                ("weights, all at once", "own"),
                ("essentials", "small"),
                ("weights", "small"),
                ("small weights", "small"),
                *((code, "small") for code in RESEMBLE),
                *LAST["small"],
            ],
        ),
        (
            True,
            "small",
            [
                ("weights, all at once", "own"),
                ("essentials", "small"),
                ("weights", "own"),
                ("small weights", "own"),
                *((code, "own") for code in RESEMBLE),
                *LAST["own"],
            ],
        ),
    ],
    ids=["all at its own shape", "most at a smaller one", "none smaller holds"],
)
def test_long_calls_are_few_and_a_smaller_shape_has_the_others(thrifty, fails_at, asked) -> None:
    battery = Battery(fails_at)
    tried = levels(battery)
    tried.try_all([{"n": 1}], [], thrifty=thrifty)
    assert battery.asked == asked
    assert tuple(sorted(tried.lacks)) == (("cases",) if fails_at else ())


def test_weights_that_are_not_followed_are_not_tried_at_another_size(monkeypatch) -> None:
    def stale(*_: object, **__: object) -> None:
        raise RefusalError(Status.CRASHED, "stale")

    battery = Battery()
    tried = levels(battery)
    monkeypatch.setattr(Battery, "weights", stale)
    tried.try_all([{"n": 1}], [], thrifty=False)
    assert tuple(sorted(tried.lacks)) == ("frozen_weights",)
    assert "small weights" not in dict(battery.asked)


def test_who_mistakes_inputs_at_the_smaller_shape_is_refused(monkeypatch) -> None:
    """It is no function of its input: no property that may be lacking."""

    def mistakes(*_: object) -> None:
        raise WRONG

    tried = levels(Battery())
    monkeypatch.setattr(Battery, "resembling", mistakes)
    with pytest.raises(RefusalError, match="wrong"):
        tried.try_all([{"n": 1}], [], thrifty=True)


FAR = NARROW + 0.01
MISSES = [
    ([0.0], True),
    ([FAR], False),
    ([NARROW, 0.0], True),
    ([1.01, NARROW, 0.0], True),
    ([1.01] * NARROW_DRAWS, False),
    ([1.01, FAR], False),
    ([float("inf")], False),
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

    check.left = left  # type: ignore[attr-defined]
    return check


@pytest.mark.parametrize(("excesses", "held"), MISSES)
def test_a_narrow_miss_counts_where_all_draws_miss(excesses: list[float], held: bool) -> None:
    tried = levels(Battery())
    check = missing(excesses)
    found = tried._refusal(reference("small"), check)
    assert (found is None, check.left) == (held, [])
    if found is not None:
        assert found.reason == f"{excesses[-1]:g} of what is allowed"


def test_a_miss_that_does_not_count_leaves_no_figures() -> None:
    tried = levels(Battery())

    def check(trial: Any) -> None:
        if not seen:
            seen.append(trial)
            trial.tally.contract = 1.2
            wrong = RefusalError(Status.WRONG_VALUE, "narrow", "")
            wrong.excess = 1.2
            raise wrong

    seen: list[Any] = []
    tried._try("values", tried._own, check)
    assert (tried.tally.contract, len(seen), tuple(sorted(tried.lacks))) == (0.0, 1, ())


@pytest.mark.parametrize(("excesses", "held"), MISSES)
def test_layouts_are_tried_on_other_values_where_one_is_missed_narrowly(
    monkeypatch: pytest.MonkeyPatch, excesses: list[float], held: bool
) -> None:
    check, drawn = missing(excesses), []
    monkeypatch.setattr(Battery, "bound_anew", lambda _, *given: check() or drawn.append(given), raising=False)
    tried = levels(Battery())
    numbers = iter(range(9))
    tried._anew("strides", "strided", reference("small"), lambda _: next(numbers))
    assert (tuple(sorted(tried.lacks)), check.left) == (() if held else ("strides",), [])
    assert next(numbers) == len(excesses), "new ones for each"


@pytest.mark.parametrize(
    ("plain", "excess", "held"),
    [([0.0] * 8, 1.01, False), ([0.0, 1.02], 1.01, True), ([0.0, FAR], 1.01, False), ([1.02], FAR, False)],
    ids=["right without it", "as narrow without it", "far off without it", "far off with it"],
)
@pytest.mark.parametrize("effect", ["strides", "weights_in_place"])
def test_a_narrow_miss_that_is_seen_without_an_effect_says_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch, effect: str, plain: list[float], excess: float, held: bool
) -> None:
    """Values at 0.9 to 1.1 of what is allowed miss now and then, whatever else is tried."""
    tried, small = levels(Battery()), reference("small")
    exchange = missing(plain)
    tried._bound.bound_to = lambda at: SimpleNamespace(reference=at, exchange=exchange)  # type: ignore[method-assign]
    misses = missing([excess] * NARROW_DRAWS)
    monkeypatch.setattr(Battery, "bound_anew", misses, raising=False)
    monkeypatch.setattr(Battery, "updated_in_place", misses)
    if effect == "strides":
        tried._anew("strides", "strided", small, lambda _: [])
    else:
        tried._candidate.follows = True
        tried._updated_in_place(small)
    assert tuple(sorted(tried.lacks)) == (() if held else (effect,))


def test_values_of_all_kinds_together_are_values_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong answer counts, whichever call showed it."""
    tried = levels(Battery())

    def vary(_battery: Any, trial: Any, variation: Any, _seeds: Any) -> bool:
        if variation.name == wrong_on:
            raise WRONG
        return True

    monkeypatch.setattr(Battery, "vary", vary)
    wrong_on = "mixed_values"
    tried.try_all([{"n": 1}], [], thrifty=False)
    assert tuple(sorted(tried.lacks)) == ("values",)
    wrong_on = "negated"
    other = levels(Battery())
    other.try_all([{"n": 1}], [], thrifty=False)
    assert tuple(sorted(other.lacks)) == ("values",)


def test_the_first_derived_shapes_have_all_essential_checks_and_larger_ones_one_call() -> None:
    battery = Battery()
    tried = levels(battery)
    names = iter(("long", "short", "larger", "larger still"))
    tried._judge.derived = lambda _: reference(next(names))
    tried.try_all([], [{"n": n} for n in range(4)], thrifty=False)
    asked = [what for what in battery.asked if what[0] in {"essentials", "one call"}]
    assert asked == [
        ("essentials", "long"),
        ("essentials", "short"),
        ("one call", "larger"),
        ("one call", "larger still"),
    ]


@pytest.mark.parametrize("status", [Status.INPUT_MUTATED, Status.NONDETERMINISTIC, Status.EXITED, Status.CRASHED])
def test_what_a_kernel_does_outside_its_tensors_at_another_shape_is_no_refusal(monkeypatch, status) -> None:
    def writes_everywhere(*_: object) -> None:
        raise RefusalError(status, "stray writes", "")

    monkeypatch.setattr(Battery, "right_once", writes_everywhere)
    monkeypatch.setattr(Battery, "essentials", writes_everywhere)
    tried = levels(Battery())
    tried._judge.derived = lambda _: reference("other")
    tried.try_all([], [{"n": n} for n in range(3)], thrifty=False)
    assert tuple(sorted(tried.lacks)) == ("shapes",)


@pytest.mark.parametrize("tries", ["_try", "_anew", "_resembling"])
@pytest.mark.parametrize("excess", [1.2, FAR])
def test_a_miss_keeps_no_tensors_of_its_call(monkeypatch: pytest.MonkeyPatch, tries: str, excess: float) -> None:
    """Those of a large call are a large share of a device's memory, and the next draw has as many."""
    made: list[Any] = []

    def check(*_: object) -> None:
        assert all(one() is None for one in made)
        tensor = torch.zeros(1)
        made.append(weakref.ref(tensor))
        wrong = RefusalError(Status.WRONG_VALUE, "narrow", "")
        wrong.excess = excess
        raise wrong

    monkeypatch.setattr(Battery, "bound_anew", check, raising=False)
    monkeypatch.setattr(Battery, "resembling", check)
    tried, small = levels(Battery()), reference("small")
    gc.disable()
    try:
        if tries == "_try":
            tried._try("values", small, check)
        elif tries == "_anew":
            tried._anew("strides", "strided", small, lambda _: [])
        else:
            with pytest.raises(RefusalError):
                tried._resembling(SimpleNamespace(reference=small), RESEMBLING[0])  # type: ignore[arg-type]
        assert len(made) == (NARROW_DRAWS if excess < NARROW else 1)
        assert tries == "_resembling" or made[-1]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("code", "lack", "excesses", "held"),
    [
        ("shifted", "values", [FAR], False),
        ("wide_range", "conditioning", [100.0, FAR, 0.0], True),
        ("wide_range", "conditioning", [100.0] * NARROW_DRAWS, False),
        ("planted_nan", "nonfinite", [float("inf")], False),
    ],
)
def test_how_far_off_badly_conditioned_inputs_are_is_chance(monkeypatch, code, lack, excesses, held) -> None:
    check = missing(excesses)
    monkeypatch.setattr(Battery, "vary", check)
    tried = levels(Battery())
    tried._values(reference("small"), [one for one in VARIATIONS if one.name == code])
    assert (tuple(sorted(tried.lacks)), check.left) == (() if held else (lack,), [])


@pytest.mark.parametrize("raises", [True, False], ids=["right on the next draw", "wrong on it, too"])
@pytest.mark.parametrize(("excesses", "held"), MISSES)
def test_who_is_at_the_bound_mistakes_no_inputs_for_those_of_the_call_before(
    monkeypatch: pytest.MonkeyPatch, excesses: list[float], held: bool, raises: bool
) -> None:
    check = missing(excesses)

    def resembling(*_: object) -> RefusalError | None:
        try:
            check()
        except RefusalError as refusal:
            if raises:
                raise
            return refusal
        return None

    monkeypatch.setattr(Battery, "resembling", resembling)
    tried = levels(Battery())
    trial: Any = SimpleNamespace(reference=reference("own"))
    with pytest.raises(RefusalError) if raises and not held else contextlib.nullcontext():
        tried.try_resembling(RESEMBLING[:1], trial)
    assert check.left == []
    assert tuple(sorted(tried.lacks)) == (() if held or raises else (RESEMBLING[0].lack,))


def test_draws_that_all_miss_are_not_drawn_again_by_who_asks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    check = missing([1.01] * NARROW_DRAWS)
    monkeypatch.setattr(Battery, "resembling", check)
    with pytest.raises(RefusalError, match="of what is allowed"):
        levels(Battery()).try_all([{"n": 1}], [], thrifty=True)
    assert check.left == []


@pytest.mark.parametrize(
    ("transposed", "code", "ends"),
    [("its `w` is transposed", "unmatched_weights", ": its `w` is transposed"), ("", "frozen_weights", "they change")],
)
def test_who_transposes_a_parameter_is_not_said_to_freeze_it(transposed: str, code: str, ends: str) -> None:
    tried = levels(Battery())
    named = {"weights": "seed", "prepares": True, "transposed": transposed, "unmatched": transposed, "follows": False}
    tried._candidate = SimpleNamespace(**named)  # type: ignore[assignment]
    tried._weights(tried._own)
    assert tuple(sorted(tried.lacks)) == (code,)
    assert tried.lacks[code].reason.endswith(ends)


@pytest.mark.parametrize(
    ("calls", "since_s", "wrong_after", "alone"),
    [
        (5, 0.0, {"calls": 4}, True),
        (5, 0.0, {"calls": 6}, False),
        (1, 0.4, {"seconds": 0.1}, True),
        (1, 0.1, {"seconds": 60.0}, False),
    ],
)
def test_another_instance_has_as_many_calls_and_as_long(calls, since_s, wrong_after, alone) -> None:
    """Who is wrong by the number of its calls, or by the time, is wrong on whatever is tried at that moment."""
    tried, counted, began = levels(Battery()), itertools.count(1), time.monotonic()
    fresh: list[bool] = []

    def exchange(_seed: int) -> None:
        if next(counted) > wrong_after.get("calls", 10**9) or time.monotonic() - began > wrong_after.get("seconds", 60):
            raise WRONG

    again = SimpleNamespace(exchange=exchange)
    bound = SimpleNamespace(reconstruct_next=lambda: fresh.append(True), bound_to=lambda _: again)
    tried._bound, tried._candidate = bound, SimpleNamespace(calls=calls)  # type: ignore[assignment]
    tried._began = time.monotonic() - since_s
    assert tried._goes_wrong_alone(tried._own) is alone
    assert fresh == [True]


def test_another_shape_is_named_with_what_is_wrong_there() -> None:
    inner = Diagnosis(code="partial_block", sentence="wrong in the tail", evidence="3 of 9")
    assert needs_other_shape(None, "dim=37").sentence == "right at its own shape, wrong at dim=37"
    assert needs_other_shape(inner, "dim=37").sentence.endswith("wrong at dim=37: wrong in the tail")
