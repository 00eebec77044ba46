"""Where both sides are constructed, on a GPU: there, and on the CPU where a constructor may have drawn otherwise."""

import contextlib
from types import SimpleNamespace

import pytest

from kbench.core.model import Status
from kbench.judge import bindings
from kbench.judge.bindings import BoundCandidate
from kbench.judge.matching import Copied, WeightPlan
from kbench.judge.refusal import RefusalError, WrongError


class Candidate:
    """Is right where it is constructed on one device, and is constructed so often in one worker."""

    def __init__(self, *, right_on="gpu", weights="name", differs=False, models=99):
        self.right_on, self.weights, self._differs, self._models = right_on, weights, differs, models
        self.spec = SimpleNamespace(compiler="")
        self.plan, self.differing, self.differing_buffers = WeightPlan(), frozenset(), frozenset()
        self.places = []
        self.said = []
        self._made = 0

    def revive(self, _worker):
        self.said.append("revive")
        self._made = 0

    def prepare(self):
        self.said.append("prepare")

    def bind(self, _reference, _arena):
        self.said.append("bind")

    def push_weights(self, _reference):
        self.said.append("push")

    def load(self, reference):
        self._made += 1
        self.said.append(f"load {self._made}")
        if self._made > self._models:
            raise RefusalError(Status.INIT_FAILED, f"no model {self._made}")
        self.places.append(reference.constructs_on)
        self.differing = frozenset("w" if self._differs and reference.constructs_on != "cpu" else "")

    def follow(self, plan):
        self.plan = plan

    def vary_weights(self, _reference):
        pass

    def ask(self, _message):
        pass


def bound(candidate, monkeypatch):
    def exchange(*, oracle):
        assert oracle
        if candidate.places[-1] != candidate.right_on:
            raise WrongError(Status.WRONG_VALUE, "not the reference's weights", "", None)

    arena = SimpleNamespace(close=lambda: None)
    trial = SimpleNamespace(arena=arena, exchange=exchange, take_back=lambda: None, clear_sent_scalars=lambda: None)
    monkeypatch.setattr(BoundCandidate, "rebound", lambda self, *_, **__: setattr(self, "arena", arena) or trial)
    judge = SimpleNamespace(fresh_worker=lambda _compiler: None, device="a GPU", give_way=lambda _candidate: None)
    judge.constructing = lambda _spec: contextlib.nullcontext()
    gpu = SimpleNamespace(has_own_memory=True, queues_calls=False, release_cached=lambda: None)
    monkeypatch.setattr(bindings, "backend", lambda _device: gpu)
    return BoundCandidate(candidate, judge, lambda: None)


@pytest.fixture
def reference():
    return SimpleNamespace(device="gpu", constructs_on="", restore=lambda **_: None)


@pytest.mark.parametrize(
    ("weights", "differs", "places"),
    [
        ("name", True, ["gpu", "gpu", "cpu"]),
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


ALL, ALL_BUT_BUFFERS, NOTHING = Copied


@pytest.mark.parametrize(
    ("right", "followed"),
    [
        ({ALL, NOTHING}, [ALL]),  # as published 2/66, whose answer is the same for all weights
        ({ALL}, [ALL]),
        ({ALL_BUT_BUFFERS, NOTHING}, [ALL, ALL_BUT_BUFFERS]),  # a table in another layout, at the reference's place
        ({NOTHING}, [ALL, ALL_BUT_BUFFERS, NOTHING]),  # parameters of another meaning at the same places
    ],
)
def test_the_first_plan_that_gives_right_values_is_kept(monkeypatch, reference, right, followed):
    candidate, seen = Candidate(weights="order"), []
    candidate.differing, candidate.differing_buffers = frozenset("wt"), frozenset("t")
    monkeypatch.setattr(BoundCandidate, "bound_to", lambda *_, **__: SimpleNamespace(exchange=exchange))

    def exchange(*, oracle):
        seen.append(candidate.plan.copied)
        if candidate.plan.copied not in right:
            raise WrongError(Status.WRONG_VALUE, "not the reference's weights", "", None)

    bound(candidate, monkeypatch).constructed(reference)
    assert seen == followed


def test_a_crash_of_a_further_plan_is_not_what_a_solution_is_refused_for(monkeypatch, reference):
    candidate = Candidate(weights="order")
    candidate.differing = frozenset("w")
    monkeypatch.setattr(BoundCandidate, "bound_to", lambda *_, **__: SimpleNamespace(exchange=exchange))
    candidate.has_ended = True

    def exchange(*, oracle):
        if candidate.plan.copied is NOTHING:
            raise RefusalError(Status.CRASHED, "signal 11")
        raise WrongError(Status.WRONG_VALUE, "not the reference's weights", "", None)

    with pytest.raises(WrongError, match="not the reference's"):
        bound(candidate, monkeypatch).constructed(reference)


def test_what_is_wrong_everywhere_is_refused_for_what_it_did_first(monkeypatch, reference):
    candidate = Candidate(right_on="nowhere", weights="seed", differs=False)
    with pytest.raises(WrongError, match="not the reference"):
        bound(candidate, monkeypatch).constructed(reference)
    assert candidate.places == ["gpu", "cpu"]


def test_a_second_model_that_fails_is_made_in_a_fresh_worker(monkeypatch, reference):
    candidate = Candidate(models=1)
    trying = bound(candidate, monkeypatch)
    trying.constructed(reference)
    assert trying.second_model is None
    for _ in range(2):
        trying.seeded(reference, lambda: None)
    assert candidate.said == ["load 1", "load 2", *["revive", "prepare", "load 1", "bind"] * 2]
    assert trying.second_model.reason == "no model 2"


def test_a_second_model_that_is_wrong_is_made_in_a_fresh_worker(monkeypatch, reference):
    candidate, first = Candidate(), "load 1"
    trying = bound(candidate, monkeypatch)
    trying.constructed(reference)

    def check():
        candidate.said.append("check")
        if candidate.said[-3:-1] == ["load 2", "push"]:
            raise RefusalError(Status.WRONG_VALUE, "the first model's weights")

    for _ in range(2):
        trying.seeded(reference, check)
    fresh = ["revive", "prepare", first, "bind", "check"]
    assert candidate.said == [first, "load 2", "push", "check", *fresh, *fresh]
    assert trying.second_model.reason == "the first model's weights"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (Status.WRONG_VALUE, ["load 2", "push", "revive", "prepare", "load 1", "bind"]),
        (Status.NONDETERMINISTIC, ["load 2", "push"]),
    ],
)
def test_what_is_wrong_in_a_fresh_worker_too_says_nothing_of_a_second_model(monkeypatch, reference, status, said):
    candidate = Candidate()
    trying = bound(candidate, monkeypatch)
    trying.constructed(reference)

    def check():
        raise RefusalError(status, f"wrong after {candidate.said[-1]}")

    with pytest.raises(RefusalError, match="wrong after push"):
        trying.seeded(reference, check)
    assert candidate.said == ["load 1", *said]
    assert trying.second_model is None


def test_one_that_a_fresh_worker_does_not_make_either_is_refused_and_says_nothing_of_a_second(monkeypatch, reference):
    trying = bound(Candidate(models=0), monkeypatch)
    with pytest.raises(RefusalError, match="no model 1"):
        trying.constructed(reference)
    assert trying.second_model is None


def test_models_that_are_made_as_often_as_asked_stay_in_their_worker(monkeypatch, reference):
    candidate = Candidate()
    trying = bound(candidate, monkeypatch)
    trying.constructed(reference)
    trying.seeded(reference, lambda: None)
    assert candidate.said == ["load 1", "load 2", "push"]


@pytest.mark.parametrize(
    ("first", "weights", "differing", "buffers", "gpu", "further"),
    [
        (ALL, "name", "", "", True, []),  # a wrong solution whose weights are the reference's
        (ALL, "name", "w", "", False, [NOTHING]),  # parameters of another meaning at equal places
        (ALL, "name", "wt", "t", False, [ALL_BUT_BUFFERS, NOTHING]),  # a table in another layout
        (ALL, "name", "wt", "t", True, [ALL_BUT_BUFFERS, NOTHING, ALL, ALL_BUT_BUFFERS, NOTHING]),
        (ALL, "seed", "", "", False, []),  # other names and shapes, and one generator on a CPU
        (ALL, "seed", "", "", True, [ALL]),  # drawn on the CPU and moved, as `torch.Tensor(n).uniform_()`
        (NOTHING, "seed", "", "", True, [NOTHING]),  # a first call folds a scale into the parameters
    ],
)
def test_plans_in_order(monkeypatch, first, weights, differing, buffers, gpu, further) -> None:
    candidate = Candidate(weights=weights)
    candidate.differing, candidate.differing_buffers = frozenset(differing), frozenset(buffers)
    trying = bound(candidate, monkeypatch)
    monkeypatch.setattr(bindings, "backend", lambda _: SimpleNamespace(has_own_memory=gpu))
    found = trying._further(WeightPlan(copied=first))
    assert [plan.copied for plan in found] == further
    on_cpu = [plan.on_cpu for plan in found]
    assert on_cpu == sorted(on_cpu), "the device first"
    assert len(set(found)) == len(found)
    assert WeightPlan(copied=first) not in found
