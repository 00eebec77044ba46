"""The process table: strangers are read once, and nothing of one's own is ever taken for one."""

import os
import subprocess
import sys

import pytest

from kbench.isolation import tree

OWN = os.getpid()
INODES = {1: 10, 2: 20, 30: 300, 31: 310, OWN: 99}


def table(**parents: int) -> dict[int, tree.Process]:
    pids = {int(name.removeprefix("p")): parent for name, parent in parents.items()}
    return {pid: tree.Process(pid=pid, parent=parent, session=pid, dead=False) for pid, parent in pids.items()}


@pytest.mark.parametrize(
    ("parents", "known", "stranger"),
    [
        ({"p31": 30, "p30": 1, "p1": 0}, set(), True),
        ({"p31": 2, "p2": 0}, set(), True),
        ({"p31": 30}, {(30, 300)}, True),
        # The known one with this pid has ended, and another process has the pid now.
        ({"p31": 30}, {(30, 301)}, False),
        ({"p31": 30, "p30": OWN, f"p{OWN}": 1, "p1": 0}, set(), False),
        # The parent ended while the table was read: the child belongs to somebody else by now, perhaps to us.
        ({"p31": 30}, set(), False),
    ],
)
def test_who_is_a_stranger(parents, known, stranger) -> None:
    assert tree._is_stranger(31, table(**parents), INODES, frozenset(known)) is stranger


def test_strangers_are_read_once_and_new_children_always(monkeypatch) -> None:
    tree.processes()
    read: list[int] = []
    original = tree._read_process
    monkeypatch.setattr(tree, "_read_process", lambda pid, place="": read.append(pid) or original(pid, place))
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert child.pid in tree.processes()
        assert child.pid in tree.processes()
        assert read.count(child.pid) == 2
        assert 1 not in read
    finally:
        child.kill()
        child.wait()
