"""Recorded draws of inputs as real CUDA graphs."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from require import WITH_CUDA

from kbench.catalog.problem import LoadedProblem
from kbench.catalog.script import Script
from kbench.judge.arena import Arena
from kbench.judge.clock.batch import RecordedDraws
from kbench.judge.reference.drawing import Inputs
from kbench.judge.reference.expected import Expected

pytestmark = WITH_CUDA
SLOTS = 16


def trial_of(get_inputs: Callable[[], list[Any]]) -> Any:
    module: Any = SimpleNamespace(get_inputs=get_inputs)
    problem = LoadedProblem(module=module, device="cuda", script=Script(Path("problem.py"), Path()))
    inputs = Inputs(problem)
    drawn = inputs.draw(1)
    arena = Arena(Expected(arguments=drawn, leaves=[("output", drawn[0])]), [], "cuda", queued=True)
    return SimpleNamespace(reference=SimpleNamespace(inputs=inputs, device="cuda"), arena=arena)


def plain() -> list[Any]:
    return [torch.rand(64, 64), torch.randn(8, 4).softmax(-1), torch.randint(0, 9, (5,)), torch.ones(4, 4).tril()]


def from_the_host() -> list[Any]:
    return [torch.randn(64, device="cpu").cuda()]


def test_slots_get_what_get_inputs_draws_and_all_of_them_differ():
    trial = trial_of(plain)
    draws = RecordedDraws(trial)
    assert draws.can_record
    seen = []
    for _ in range(2):
        assert draws.stage(SLOTS)
        trial.arena.reveal(SLOTS)
        seen += [trial.arena.inputs(slot)[0].clone() for slot in range(SLOTS)]
        assert torch.equal(trial.arena.inputs(SLOTS - 1)[3], torch.ones(4, 4, device="cuda").tril())
    assert len({tuple(x.flatten().tolist()) for x in seen}) == 2 * SLOTS
    for x in seen:
        assert 0 <= x.min() < 0.05
        assert 0.95 < x.max() < 1


def test_inputs_from_the_host_are_drawn_one_by_one_and_the_generator_stays_usable():
    trial = trial_of(from_the_host)
    assert not RecordedDraws(trial).stage(SLOTS)
    assert torch.rand(3, device="cuda").shape == (3,)
    assert trial.reference.inputs.draw()[0].shape == (64,)
