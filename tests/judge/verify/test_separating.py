"""Sets of names of which each pair is parted both ways, and no more of them than that takes."""

import itertools

import pytest

from kbench.judge.verify.battery import separating


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
