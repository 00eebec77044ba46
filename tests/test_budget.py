"""kbench grows no room: lines, files, classes, constants, flags, codes and words stay within tests/budget.toml.

Run `python tests/test_budget.py --lower` after a change that removes something. It lowers the numbers that have become
much smaller (3 %, or 30 lines), gives a new room what the room has, and drops rooms that are gone. The numbers of
`kbench`, the sum of its rooms, are only lowered: a move from one room to another may raise a room's number by hand, and
pays in the other room. After a merge conflict in the file, keep the larger number of each pair and run the command.
"""

import ast
import sys

import budget
import pytest

LOWER = "`python tests/test_budget.py --lower` writes them down"


def test_no_room_exceeds_its_budget_and_what_is_saved_is_written_down() -> None:
    found = budget.complaints(budget.read(), budget.measured(), lambda kind: kind != "wording")
    above = [one for one in found if "below" not in one]
    assert not above, "\n".join(["", *above, "take something out of the room: a budget is never raised"])
    assert not found, "\n".join(["", *found, f"these numbers have become smaller: {LOWER}"])


NOW = {"kbench": {"lines": 1_000, "flags": 10}, "cli": {"lines": 400}}


@pytest.mark.parametrize(
    ("budgets", "said"),
    [
        (NOW, []),
        ({**NOW, "cli": {"lines": 399}}, ["cli: 400 lines, 1 above the budget of 399"]),
        ({**NOW, "cli": {"lines": 430}}, []),
        ({**NOW, "cli": {"lines": 431}}, ["cli: 400 lines, 31 below the budget of 431"]),
        ({**NOW, "kbench": {"lines": 1_030, "flags": 11}}, []),
        ({**NOW, "kbench": {"lines": 1_032, "flags": 12}}, [
            "kbench: 1,000 lines, 32 below the budget of 1,032", "kbench: 10 flags, 2 below the budget of 12"
        ]),
        ({"kbench": NOW["kbench"]}, ["cli: 400 lines, and no budget"]),
        ({**NOW, "gone": {"lines": 1}}, ["gone: has a budget and is gone"]),
    ],
)  # fmt: skip
def test_what_is_said_of_a_budget(budgets: budget.Sizes, said: list[str]) -> None:
    assert budget.complaints(budgets, NOW) == said


def test_numbers_are_only_lowered() -> None:
    budgets = {"kbench": {"lines": 900, "flags": 12}, "gone": {"lines": 5}}
    assert budget.lowered(budgets, NOW) == {"kbench": {"lines": 900, "flags": 10}, "cli": {"lines": 400}}
    near = {"kbench": {"lines": 1_030, "flags": 11}, "cli": {"lines": 430}}
    assert budget.lowered(near, NOW) == near


def test_the_file_is_as_it_is_written() -> None:
    assert budget.FILE.read_text(encoding="utf-8") == budget.written(budget.read())


def test_constants_are_numbers_in_capitals() -> None:
    tree = ast.parse("A = 1\nB, C = 2**20, -1.5\nD = {'x': 3}\nE = 'text'\nf = 4\nG: int = 5\nH = True\nI = A")
    assert list(budget.constants(tree)) == ["A", "B", "C", "D", "G"]


if __name__ == "__main__":
    if sys.argv[1:] != ["--lower"]:
        sys.exit("usage: python tests/test_budget.py --lower")
    now = budget.measured()
    budget.FILE.write_text(budget.written(budget.lowered(budget.read(), now)), encoding="utf-8")
    sys.stdout.write("\n".join([*budget.complaints(budget.read(), now), "written"]) + "\n")
