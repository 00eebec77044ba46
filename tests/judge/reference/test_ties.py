"""Values that indices pick."""

import pytest
import torch

from kbench.judge.reference import boundaries

ROW = torch.tensor([[3.0, 1.0, 3.0, 2.0]])


@pytest.mark.parametrize(
    ("picks", "source", "dim", "expected"),
    [
        ([[1, 3, 0, 2]], ROW, 1, [[1.0, 2.0, 3.0, 3.0]]),
        ([[1, 3]], ROW, -1, [[1.0, 2.0]]),
        ([0], ROW, 1, [[3.0]]),  # argmax along the last dimension
        (3, ROW, None, [2.0]),  # argmax over everything
        ([[6]], torch.cat([ROW, ROW + 1]), None, [4.0]),
        ([[0], [3]], torch.cat([ROW, ROW + 1]), 1, [[3.0], [3.0]]),
        ([[1, 0, 1, 0]], torch.cat([ROW, ROW + 1]), 0, [[4.0, 1.0, 4.0, 2.0]]),
        ([[1, 3, 0, 4]], ROW, 1, None),  # beyond the end: unwritten memory, say
        ([[1, 3, 0, -4]], ROW, 1, None),
        ([[0, 1], [0, 1]], ROW, 1, None),  # indices of another shape
        (1, ROW, 1, None),
    ],
)
def test_values_that_indices_pick(picks, source, dim, expected) -> None:
    found = boundaries.picked_values(source, torch.tensor(picks), dim)
    assert (found is None) == (expected is None)
    assert found is None or found.tolist() == expected


@pytest.mark.parametrize(
    ("got", "want", "expected"),
    [
        ([[1, 3, 0, 2]], [[1, 3, 2, 0]], True),
        ([[1, 3, 0, 0]], [[1, 3, 2, 0]], False),  # sorted values, but no permutation
        ([[1, 3, 0, 0]], [[1, 3, 0, 0]], True),
        ([[0, 0], [0, 0]], [[1, 1], [0, 2]], False),
    ],
)
def test_an_index_comes_twice_only_where_one_does_in_the_reference(got, want, expected) -> None:
    assert boundaries.are_as_distinct(torch.tensor(got), torch.tensor(want), 1) is expected
