"""Recorded draws of inputs, on a CPU: a recording is what runs the same operations again."""

import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kbench.catalog.problem import LoadedProblem
from kbench.catalog.script import Script
from kbench.judge.arena import Arena
from kbench.judge.clock import batch
from kbench.judge.clock.batch import LEAST, RecordedDraws
from kbench.judge.reference.drawing import Inputs
from kbench.judge.reference.expected import Expected

Get = Callable[[], list[Any]]
made: list[int] = []
"""How often a recording was made."""


def record(work: Callable[[], None]) -> Callable[[], None]:
    made.append(1)
    return work


@pytest.fixture(autouse=True)
def without_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    made.clear()
    monkeypatch.setattr(batch, "recorded", record)


def draws_of(get_inputs: Get, *, jitter: bool = False) -> tuple[RecordedDraws, Arena]:
    module: Any = SimpleNamespace(get_inputs=get_inputs)
    problem = LoadedProblem(module=module, device="cpu", script=Script(Path("problem.py"), Path()))
    inputs = Inputs(problem)
    inputs.jitter = jitter
    drawn = inputs.draw(1)
    arena = Arena(Expected(arguments=drawn, leaves=[("output", drawn[0])]), [], "cpu", queued=True)
    trial: Any = SimpleNamespace(reference=SimpleNamespace(inputs=inputs, device="cpu"), arena=arena)
    return RecordedDraws(trial), arena


def masked() -> list[Any]:
    return [torch.rand(4, 8) * 2 - 1, torch.tril(torch.ones(8, 8)), torch.randint(0, 5, (4,))]


def by_python() -> list[Any]:
    return [torch.rand(4, 8) * random.random()]


def seldom_by_python() -> list[Any]:
    return [torch.rand(4, 8) + (random.random() < 0.5)]


def that_waits() -> list[Any]:
    return [torch.rand(4, 8) * torch.rand(()).item()]


def that_sorts() -> list[Any]:
    return [torch.rand(4, 8).sort().values]


@pytest.mark.parametrize(
    ("get_inputs", "can"), [(masked, True), (by_python, False), (that_waits, False), (that_sorts, False)]
)
def test_operations_of_torch_on_the_device_are_recorded_if_seeds_decide_all(get_inputs: Get, can: bool):
    assert draws_of(get_inputs)[0].can_record is can


def test_what_python_draws_now_and_then_is_seen_by_one_of_two_seeds():
    seen = [draws_of(seldom_by_python)[0].can_record for _ in range(120)]
    assert seen.count(False) > 70, "of one seed alone it would be 60, of two it is 90"


def test_a_random_factor_of_the_judge_is_not_recorded():
    assert not draws_of(masked, jitter=True)[0].can_record


def test_slots_get_inputs_that_differ_from_each_other_and_from_round_to_round():
    draws, arena = draws_of(masked)
    rounds = []
    for _ in range(2):
        assert draws.stage(LEAST)
        arena.reveal(LEAST)
        rounds.append([arena.inputs(slot)[0].clone() for slot in range(LEAST)])
    assert len({tuple(x.flatten().tolist()) for x in (*rounds[0], *rounds[1])}) == 2 * LEAST
    assert torch.equal(arena.inputs(0)[1], torch.tril(torch.ones(8, 8)))


def test_a_number_of_slots_is_recorded_once_and_few_are_drawn_one_by_one():
    draws, _ = draws_of(masked)
    assert not draws.stage(LEAST - 1)
    assert not made
    assert all(draws.stage(LEAST) for _ in range(3))
    assert draws.stage(LEAST + 1)
    assert len(made) == 3, "one to see that it draws the same, and one for each number of slots"


def test_watching_a_draw_does_not_import_the_compiler(after_torch_process) -> None:
    """It took 1.1 s of the first timing of a run on a GPU."""
    code = """
        import sys, torch
        from kbench.numerics.operators import OperatorMode
        seen = []
        with OperatorMode(lambda func, args, given: seen.append(func) or func(*args, **given)):
            torch.randn(3)
        assert seen
        assert "torch._dynamo" not in sys.modules
    """
    after_torch_process.run(code)
