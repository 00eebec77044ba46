"""JSON files that processes and threads share."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kbench.storage import json_values


def test_threads_that_write_the_same_file_replace_it_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    values = [{"by": number, "long": "x" * 20_000} for number in range(64)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda value: json_values.write(path, value), values))
    assert json_values.read(path) in values
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
