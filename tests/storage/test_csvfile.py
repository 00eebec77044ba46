"""Files that are replaced as a whole."""

import os
from pathlib import Path

import pytest

from kbench.core.errors import MachineError
from kbench.storage.csvfile import replace_file


def test_what_a_link_leads_to_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    target.write_text("old")
    link.symlink_to(target)
    replace_file(link, "new")
    assert (link.is_symlink(), target.read_text()) == (True, "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.csv", "target.csv"]


def test_a_pipe_and_a_device_are_written_to(tmp_path: Path) -> None:
    """As root, `-o /dev/null` would else put a file in its place."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    replace_file(pipe, "text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)
    replace_file(Path("/dev/null"), "text")
    assert Path("/dev/null").is_char_device()


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="Is a directory"):
        replace_file(tmp_path, "text")
