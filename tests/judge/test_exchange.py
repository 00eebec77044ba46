"""What the exchange makes of outputs that prove little."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fakes import CORRECT

from kbench.core.values import Ruling
from kbench.judge import exchange
from kbench.judge.comparison import Tally, Truth
from kbench.judge.exchange import Trial
from kbench.judge.reference.expected import Expected
from kbench.judge.refusal import WrongError
from kbench.numerics.elements import Tolerance


@pytest.mark.parametrize(
    ("shapes", "trivial_output_passes", "little"),
    [
        ([(0, 4)], {}, True),
        ([(0,), (3, 0)], {}, True),
        ([(0,), (3,)], {"output[1]": False}, False),
        ([(0,), (3,)], {"output[1]": True}, True),
        ([], {}, False),
    ],
)
def test_outputs_without_elements_prove_little(shapes, trivial_output_passes, little):
    """A case of no rows compares nothing; a result that is all plain values is compared as it is."""
    trial: Any = object.__new__(Trial)
    trial.arena = SimpleNamespace(output_like=[torch.empty(shape, device="meta") for shape in shapes])
    trial.reference = SimpleNamespace(repeats=())
    trial.tally = SimpleNamespace(trivial_output_passes=trivial_output_passes)
    assert trial.proves_little is little


@pytest.mark.parametrize(("between_bytes", "released"), [(0, 0), (9 << 30, 0), (17 << 30, 1)])
def test_what_large_steps_took_is_given_back_before_the_worker_makes_them(monkeypatch, between_bytes, released) -> None:
    said: list[str] = []
    device = SimpleNamespace(
        release_cached=lambda: said.append("released"), identify=lambda: SimpleNamespace(memory_bytes=80 << 30)
    )
    monkeypatch.setattr(exchange, "backend", lambda _: device)
    trial: Any = object.__new__(Trial)
    trial.reference = SimpleNamespace(between_bytes=between_bytes, device="cuda")
    trial.send_scalars = lambda slot, _: said.append(f"send {slot}")
    trial.candidate = SimpleNamespace(pause=lambda: None)
    trial.arena = SimpleNamespace(fill=lambda slot, _: said.append(f"fill {slot}"), lends=False)
    trial.fill([3], [SimpleNamespace(arguments=[])])
    assert said == ["released"] * released + ["send 3", "fill 3"]


def trial_that_finds(*excesses: float, is_timed: bool) -> tuple[Any, list[Any]]:
    """Return a trial whose calls are ruled wrong by these, one after the other; 0 is right."""
    trial, counted = object.__new__(Trial), list[Any]()
    trial.candidate, trial.reference = SimpleNamespace(log=""), SimpleNamespace(factor=4.0)
    trial.tally = SimpleNamespace(correctness=lambda *_: CORRECT, figures=CORRECT, add=counted.append)
    trial.results = lambda *_: []
    rulings = iter([Ruling(right=not excess, contract="held", reason="", excess=excess) for excess in excesses])
    trial.compare = lambda *_: SimpleNamespace(ruling=next(rulings), wrong=[], describe=lambda _: "wrong")
    trial.explain, trial.is_timed, trial._timed, trial._narrow = lambda *_: None, is_timed, 0, 0
    return trial, counted


def test_a_refusal_says_how_far_values_are_from_what_is_allowed() -> None:
    trial, counted = trial_that_finds(1.25, is_timed=False)
    with pytest.raises(WrongError) as refused:
        trial.judge_values(0, None)
    assert refused.value.excess == 1.25
    assert counted == [], "a wrong call leaves no figures"


def test_of_the_timed_calls_one_may_miss_narrowly_and_not_each() -> None:
    trial, counted = trial_that_finds(*[0.0] * 18, 1.36, 0.0, 1.2, 1.1, 1.1, is_timed=True)
    for _ in range(22):
        trial.judge_values(0, None)
    assert trial.tally.figures.contract == "unattainable"
    assert len(counted) == 22
    with pytest.raises(WrongError):
        trial.judge_values(0, None)
    with pytest.raises(WrongError):
        trial_that_finds(40.0, is_timed=True)[0].judge_values(0, None)


def test_who_is_wrong_by_fp64_alone_is_told_where() -> None:
    """Both outputs meet the contract: the second is 0.001 of itself off, and near zero."""
    want = (torch.ones(4), torch.tensor([1e-3, 2e-3]))
    outputs = [want[0].clone(), want[1] * torch.tensor([1.0, 1.001])]
    truth = Truth(pieces=[(..., [t.double() for t in want])], vacuous=(False, False), scales=(1.0, 1.6e-3))
    expected = Expected(arguments=[], leaves=[("output[0]", want[0]), ("output['near']", want[1])])
    trial: Any = object.__new__(Trial)
    trial.tally, trial.earlier = Tally(), []
    tolerance = Tolerance(rtol=1e-5, atol=1e-5)
    trial.reference = SimpleNamespace(tolerance=lambda _: tolerance, factor=4.0, steps=frozenset())
    found = trial.compare(outputs, expected, truth)
    assert not found.ruling.right
    words = found.describe("")
    assert words.startswith("output['near'][1]: got 0.00200200011, fp64 gives 0.00200000009; ")
    assert "times the tolerance from fp64" in words
    assert "elements wrong" not in words


@pytest.mark.parametrize(
    ("found", "codes", "words"),
    [
        ({}, [], ""),
        ({"narrow": 1.13}, ["far_from_fp64"], "1.13 times the allowed distance from fp64"),
        ({"picks": 3}, ["ties"], "equal within the tolerance"),
        ({"boundary": (2, 131_072)}, ["boundary_codes"], "up to 2 of 131,072 elements are one code"),
        ({"narrow": 2.0, "boundary": (1, 400)}, ["far_from_fp64", "boundary_codes"], "1 of 400"),
    ],
)
def test_what_is_right_and_worth_knowing_is_a_note(found, codes, words) -> None:
    notes = Tally(**found).notes()
    assert [note.code for note in notes] == codes
    assert not any(note.fatal for note in notes)
    assert words in " ".join(note.message for note in notes)
