"""Indices that point at equal values."""

import math

import pytest
import torch

from kbench.numerics import ties

ROW = torch.tensor([[3.0, 1.0, 3.0, 2.0]])


@pytest.mark.parametrize(
    ("got", "want", "inputs", "expected"),
    [
        ([[1, 3, 0, 2]], [[1, 3, 2, 0]], [ROW], True),
        ([[1, 3, 0, 2]], [[3, 1, 2, 0]], [ROW], False),
        ([0], [2], [ROW], True),  # argmax along the last dimension
        (0, 2, [ROW], True),  # argmax over everything
        (1, 2, [ROW], False),
        ([[1, 3, 0, 4]], [[1, 3, 2, 0]], [ROW], False),  # beyond the end: unwritten memory, say
        ([[1, 3, 0, -4]], [[1, 3, 2, 0]], [ROW], False),
        ([[1, 3, 0, 0]], [[1, 3, 2, 0]], [ROW], False),  # sorted values, but no permutation
        ([[0, 0]], [[0, 0]], [ROW], True),
        ([0, 0], [0, 2], [ROW.expand(2, 4)], True),  # each row has a pick of its own
        ([[0]], [[2]], [ROW.long()], True),
        ([[0]], [[2]], [ROW == 3], False),  # a mask: too many are equal for that to mean anything
        ([[0]], [[6]], [torch.cat([ROW, ROW])], True),  # argmax over everything that keeps the dimensions
        ([[0]], [[2]], [ROW, torch.zeros(1, 2)], True),
        ([1], [3], [ROW, torch.tensor([[0, 1, 0, 1]])], False),  # both are allowed, and only one of them is the best
        ([0], [2], [ROW, torch.tensor([[1, 0, 1, 0]])], True),
        ([[0, 1, 2]], [[2, 1, 0]], [torch.full((1, 4), math.nan)], False),
    ],
)
def test_indices_that_point_at_equal_values(got, want, inputs, expected) -> None:
    assert any(ties.pick_places(torch.tensor(got), torch.tensor(want), inputs)) is expected
