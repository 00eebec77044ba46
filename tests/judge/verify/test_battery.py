"""Which draw of inputs decides, with a reference and a judge that answer by the seed."""

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kbench.core.diagnosis import Diagnosis
from kbench.core.model import Status
from kbench.core.values import DRAWS, Ruling
from kbench.judge.comparison import Tally
from kbench.judge.reference.expected import FEW
from kbench.judge.refusal import RefusalError, WrongError
from kbench.judge.verify import battery as checks
from kbench.judge.verify.battery import Battery, separating
from kbench.judge.verify.variations import VARIATIONS

CENTRED = next(variation for variation in VARIATIONS if variation.name == "centred")
PLANTED = next(variation for variation in VARIATIONS if not variation.is_usual)


class Answers:
    """A trial whose reference has so many elements, and is accurate for some seeds only."""

    def __init__(self, size: int, accurate: set[int]):
        self.accurate = accurate
        self.tried: list[int] = []
        self.reference = SimpleNamespace(try_changed=self.expect)
        self.size = size

    def arguments(self, seed: int, *_: Any) -> int:
        return seed

    def expect(self, seed: int) -> Any:
        self.tried.append(seed)
        return SimpleNamespace(seed=seed, has_few=self.size < FEW)


@pytest.fixture
def battery(monkeypatch):
    def valid(trial: Answers, expected: Any, truth: str, within: float) -> bool:
        assert truth == f"truth of {expected.seed}"
        return expected.seed in trial.accurate

    monkeypatch.setattr(checks.Truth, "of", lambda _reference, expected: f"truth of {expected.seed}")
    monkeypatch.setattr(Battery, "_valid", staticmethod(valid))
    made = Battery.__new__(Battery)
    made.notes = []
    monkeypatch.setattr(Battery, "note", lambda self, code, message: self.notes.append(code), raising=True)
    return made


@pytest.mark.parametrize(
    ("size", "accurate", "tried", "notes"),
    [
        (1, {1, 2, 3}, [1], []),
        (1, {3}, [1, 2, 3], []),
        (1, set(), [1, 2, 3], ["skipped_centred"]),
        (FEW, {3}, [1], ["skipped_centred"]),
    ],
    ids=["the first does", "a few elements get other draws", "no draw does", "many elements are no luck"],
)
def test_inputs_that_cannot_decide_are_drawn_again(battery, size, accurate, tried, notes):
    trial = Answers(size, accurate)
    drawn = battery._draw(trial, CENTRED, [1, 2, 3])
    assert trial.tried == tried
    assert battery.notes == notes
    assert (drawn is None) == bool(notes)
    if drawn is not None:
        assert (drawn[0].seed, drawn[1]) == (tried[-1], f"truth of {tried[-1]}")


def test_extreme_values_need_no_accurate_reference(battery):
    assert battery._draw(Answers(1, set()), PLANTED, [1, 2]) is not None


@pytest.mark.parametrize(("variation", "is_vacuous"), [(PLANTED, True), (CENTRED, False)])
def test_a_miss_on_other_values_says_how_far_it_is_from_what_is_allowed(battery, monkeypatch, variation, is_vacuous):
    """A copy of an input that passes on valid values of the judge's choice asks for no more digits."""
    expected, truth = SimpleNamespace(has_few=False), checks.Truth(pieces=None, vacuous=(True,), scales=(1.0,))
    monkeypatch.setattr(Battery, "_draw", lambda *_: (expected, truth))
    decided: list[checks.Truth] = []

    def compare(_outputs: Any, _expected: Any, truth: checks.Truth) -> Any:
        decided.append(truth)
        return SimpleNamespace(ruling=ruling, is_rounding=False, describe=lambda _: "wrong")

    ruling = Ruling(right=False, contract="held", reason="", excess=1.25)
    trial = SimpleNamespace(
        call=lambda *_, **__: SimpleNamespace(slots=(0,)),
        results=lambda _: [],
        candidate=SimpleNamespace(log=""),
        launch_error="",
        compare=compare,
        explain=lambda *_, **__: None,
    )
    with pytest.raises(RefusalError) as refused:
        battery.vary(trial, variation, [1])
    assert refused.value.excess == 1.25
    assert decided[0].vacuous == (is_vacuous,)


def with_weights(names, exchange, *, proves_little=False, earlier=(), vary=lambda *_, **__: None, tally=None):
    """Return a battery and a trial of a model that has these parameters; `exchange` is a call."""
    battery = Battery()
    model = torch.nn.ParameterDict({name: torch.ones(3) for name in names})
    trial = SimpleNamespace(
        candidate=SimpleNamespace(vary_weights=vary, require_weights_unchanged=lambda _: None),
        reference=SimpleNamespace(model=model, keeps_weights=False),
        proves_little=proves_little,
        earlier=[*earlier],
        tally=tally or Tally(),
        exchange=exchange,
    )
    return battery, trial


NEARLY_ZEROS = torch.zeros(640)
NEARLY_ZEROS[3] = 0.5


@pytest.mark.parametrize(
    ("proves_little", "earlier", "tells_little"),
    [
        (False, [], False),
        (True, [], True),
        (False, [[torch.rand(640)], [torch.rand(64)], [torch.rand(8, 10)]], False),
        (False, [[torch.rand(640), NEARLY_ZEROS]], True),
        (False, [[NEARLY_ZEROS[:60]], [torch.zeros(640, dtype=torch.int64)]], False),
    ],
)
@pytest.mark.parametrize("names", [["weight", "bias"], ["a", "b", "c", "d", "e"], ["weight"], []])
def test_all_weights_change_and_then_each_apart_from_each_other(names, proves_little, earlier, tells_little):
    parts, calls = [], []
    battery, trial = with_weights(
        names,
        lambda **_: calls.append(len(parts)),
        proves_little=proves_little,
        earlier=earlier,
        vary=lambda _reference, part, **_: parts.append(set(part)),
    )
    battery.weights(trial)
    assert calls == list(range(1, len(parts) + 1))
    first, *others = parts
    apart, more = (others[:-8], others[-8:]) if tells_little else (others, [])
    assert first == set(names)
    assert all(part == set(names) for part in more), "one answer proves little, several more"
    assert all(any(a in part and b not in part for part in apart) for a, b in itertools.permutations(names, 2))
    assert len(apart) == max(1, len(separating(names))), "one draw of weights is never all"


@pytest.mark.parametrize(
    ("proves_little", "told", "found"),
    [
        (False, ["", "frozen_weights"], "frozen_weights"),
        (False, [None, "", None, "frozen_weights"], ""),
        (True, ["", None, None, "frozen_weights"], "frozen_weights"),
        (True, ["", ""], ""),
    ],
)
def test_of_wrong_answers_the_first_that_is_explained_counts(proves_little, told, found):
    """`told` has the diagnosis of each draw, empty for wrong without one, None for right."""
    answers = iter(told)

    def exchange(**_):
        code = next(answers, None)
        if code is not None:
            raise explained_as(code)

    battery, trial = with_weights(["weight"], exchange, proves_little=proves_little)
    with pytest.raises(WrongError) as refused:
        battery.weights(trial)
    assert (refused.value.diagnosis.code if refused.value.diagnosis is not None else "") == found


@pytest.mark.parametrize(("proves_little", "draws"), [(False, DRAWS), (True, 1 + 6 + 8)])
def test_the_search_for_a_reason_ends_where_three_answers_had_none(proves_little, draws):
    asked = []

    def exchange(**_):
        asked.append(len(asked))
        raise explained_as("")

    battery, trial = with_weights([f"p{n}" for n in range(20)], exchange, proves_little=proves_little)
    with pytest.raises(WrongError):
        battery.weights(trial)
    assert len(asked) == draws


@pytest.mark.parametrize(("kind", "held_against_fp64"), [("held", [True, False, False]), ("vacuous", [True] * 3)])
def test_weights_that_change_apart_are_held_against_fp64_where_the_contract_proves_little(kind, held_against_fp64):
    """`x + 2e-6 * x * (weight * scale)`: whatever the product is, a copy of x is within the tolerance."""
    asked = []
    tally = Tally(figures=replace(Tally().figures, contract=kind))
    battery, trial = with_weights("ab", lambda *, oracle: asked.append(oracle), tally=tally)
    battery.weights(trial)
    assert asked == held_against_fp64


def explained_as(code: str) -> WrongError:
    """Return a wrong value with a diagnosis, or without one."""
    refusal = WrongError(Status.WRONG_VALUE, "wrong", "", Tally().correctness(1.0))
    refusal.diagnosis = Diagnosis(code=code, sentence="", evidence="") if code else None
    return refusal


@pytest.mark.parametrize(
    ("names", "sets"), [(0, 0), (1, 0), (2, 2), (3, 3), (4, 4), (6, 4), (7, 5), (10, 5), (20, 6), (70, 8), (252, 10)]
)
def test_any_two_names_are_parted_both_ways(names, sets) -> None:
    given = [f"p{n}" for n in range(names)]
    found = separating(given)
    assert len(found) == sets
    assert set().union(*found) <= set(given)
    for first, second in itertools.permutations(given, 2):
        assert any(first in one and second not in one for one in found)


def test_who_is_with_whom_is_a_secret() -> None:
    given = [f"p{n}" for n in range(6)]
    assert len({frozenset(separating(given)[0]) for _ in range(50)}) > 5
