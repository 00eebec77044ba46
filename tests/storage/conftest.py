"""A saved run."""

from pathlib import Path

import pytest
from records import make_row, make_samples

from kbench.storage.results import RunWriter


@pytest.fixture
def written(tmp_path: Path) -> Path:
    with RunWriter(tmp_path, "one") as writer:
        for process in range(2):
            writer.append(make_row(process=process), make_samples(process=process))
        writer.append(make_row(solution="broken", status="crashed", reason="signal 11", timed=False))
        return writer.csv_path
