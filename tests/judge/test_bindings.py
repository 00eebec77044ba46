"""Where both sides are constructed, on a GPU: there, and on the CPU where a constructor may have drawn otherwise."""

from types import SimpleNamespace

import pytest

from kbench.core.model import Status
from kbench.judge import bindings
from kbench.judge.bindings import BoundCandidate
from kbench.judge.exchange import WrongError


class Candidate:
    """Is right where it is constructed on one device."""

    def __init__(self, *, right_on, weights, differs):
        self.right_on, self.weights, self._differs = right_on, weights, differs
        self.undecided = self.differed = False
        self.places = []

    def load(self, reference):
        self.places.append(reference.constructs_on)
        self.differed = self._differs and reference.constructs_on != "cpu"

    def reconsider(self):
        self.differed = False

    def vary_weights(self, _reference, _seed):
        pass

    def unbind(self):
        pass


def bound(candidate, monkeypatch):
    def exchange(_seed, *, oracle):
        assert oracle
        if candidate.places[-1] != candidate.right_on:
            raise WrongError(Status.WRONG_VALUE, "not the reference's weights", "", None)

    arena = SimpleNamespace(close=lambda: None)
    battery = SimpleNamespace(bind=lambda *_, **__: SimpleNamespace(arena=arena, exchange=exchange))
    gpu = SimpleNamespace(has_own_memory=True, queues_calls=False, release_cached=lambda: None)
    monkeypatch.setattr(bindings, "backend", lambda _device: gpu)
    return BoundCandidate(candidate, battery, None, "a GPU", lambda: None)


@pytest.fixture
def reference():
    return SimpleNamespace(device="gpu", constructs_on="", restore=lambda **_: None)


@pytest.mark.parametrize(
    ("weights", "differs", "places"),
    [
        ("name", True, ["gpu", "cpu"]),
        (
            "seed",
            False,
            ["gpu", "cpu"],
        ),  # as published 3/2 does with `torch.Tensor`
        ("name", False, ["gpu"]),
        ("none", False, ["gpu"]),
    ],
)
def test_a_solution_that_may_have_drawn_elsewhere_is_constructed_on_the_cpu(
    monkeypatch, reference, weights, differs, places
):
    candidate = Candidate(right_on="cpu", weights=weights, differs=differs)
    trying = bound(candidate, monkeypatch)
    if places[-1] == "cpu":
        trying.constructed(reference)
    else:
        with pytest.raises(WrongError):
            trying.constructed(reference)
    assert candidate.places == places


def test_what_is_right_where_it_is_stays_there(monkeypatch, reference):
    candidate = Candidate(right_on="gpu", weights="seed", differs=False)
    bound(candidate, monkeypatch).constructed(reference)
    assert candidate.places == ["gpu"]


def test_what_is_wrong_everywhere_is_refused_for_what_it_did_first(monkeypatch, reference):
    candidate = Candidate(right_on="nowhere", weights="seed", differs=False)
    with pytest.raises(WrongError, match="not the reference"):
        bound(candidate, monkeypatch).constructed(reference)
    assert candidate.places == ["gpu", "cpu"]
