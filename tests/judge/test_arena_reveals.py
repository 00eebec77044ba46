"""Inputs appear in a worker's slots when the gate is about to open, and not a byte of them before."""

import pytest
import torch

from kbench.judge.arena import Arena
from kbench.judge.reference.expected import Expected


@pytest.fixture
def arenas():
    made = []

    def make(lends):
        x = torch.randn(5000)
        expected = Expected(arguments=[x], leaves=[("output", x)])
        made.append(Arena(expected, [], "cpu", slots=1 if lends else 3, lends=lends))
        return made[-1]

    yield make
    for arena in made:
        arena.close()


@pytest.mark.parametrize("lends", [False, True])
def test_what_is_staged_is_visible_after_revealing_only(arenas, lends):
    arena = arenas(lends)
    for _ in range(2):
        inputs = [torch.randn(5000) for _ in range(arena.count)]
        for slot, x in enumerate(inputs):
            arena.stage(slot, [x.clone()])
        for slot, x in enumerate(inputs):
            assert not torch.equal(arena.inputs(slot)[0], x)
        arena.reveal(arena.count)
        for slot, x in enumerate(inputs):
            assert torch.equal(arena.inputs(slot)[0], x)


@pytest.mark.parametrize("lends", [False, True])
def test_revealing_again_leaves_the_inputs_as_they_are(arenas, lends):
    """Loops that are timed afterwards work on them: with noise for indices they would fail."""
    arena = arenas(lends)
    inputs = [torch.randn(5000) for _ in range(arena.count)]
    for slot, x in enumerate(inputs):
        arena.stage(slot, [x.clone()])
    arena.reveal(arena.count)
    for slots in (0, arena.count, arena.count):
        arena.reveal(slots)
    for slot, x in enumerate(inputs):
        assert torch.equal(arena.inputs(slot)[0], x)
    arena.stage(0, [inputs[0] + 1])
    assert not torch.equal(arena.inputs(0)[0], inputs[0] + 1), "and the next ones are hidden"
