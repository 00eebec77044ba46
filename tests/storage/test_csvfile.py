"""Files that are replaced as a whole, by threads too."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kbench.core.errors import MachineError
from kbench.storage import json_values
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


def test_threads_that_write_the_same_file_replace_it_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    values = [{"by": number, "long": "x" * 20_000} for number in range(64)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda value: json_values.write(path, value), values))
    assert json_values.read(path) in values
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
