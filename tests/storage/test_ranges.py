"""What a cell can hold: numbers that no run writes are refused by line and column."""

import csv
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from records import make_row, make_samples

from kbench.core.errors import ResultsError
from kbench.core.model import ResultRow, Sample
from kbench.storage import csvfile
from kbench.storage.results import RunWriter, read_run
from kbench.storage.runfiles import samples_path
from kbench.storage.saved_runs import list_runs


@pytest.fixture
def written(tmp_path: Path) -> Path:
    with RunWriter(tmp_path, "one") as writer:
        writer.append(make_row(), make_samples())
    return writer.csv_path


def spoil(path: Path, column: str, value: str) -> None:
    """Put a value into the first line's cell."""
    header, first, *rest = csv.reader(path.read_text().splitlines())
    first[header.index(column)] = value
    path.write_text("".join(csvfile.line(cells) for cells in (header, first, *rest)))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("process", "-1"),
        ("time_ns_median", "0"),
        ("time_ns_median", "9" * 400),
        ("ref_time_ns_median", "-5"),
        ("speedup", "0.0"),
        ("speedup", "-1.0"),
        ("speedup", "-inf"),
        ("speedup", "inf"),
        ("speedup", "nan"),
        ("speedup", "1e-320"),
        ("speedup_low", "0"),
        ("speedup_high", "nan"),
        ("attested_ns", "9" * 400),
        ("limit_ns", "-1"),
        ("percent_of_limit", "nan"),
        ("percent_of_limit", "inf"),
        ("percent_of_limit", "-1"),
        ("own_share", "-0.1"),
        ("own_share", "1.1"),
        ("own_share", "nan"),
        ("dram_bytes", "9" * 400),
    ],
)
def test_a_number_that_no_run_writes(written: Path, column: str, value: str) -> None:
    spoil(written, column, value)
    with pytest.raises(ResultsError, match=rf"one.csv has .* as `{column}` in line 2"):
        read_run(written)
    assert list_runs(written.parent)[0].broken


@pytest.mark.parametrize("column", ["gpu_name", "gpu_uuid"])
def test_a_name_that_no_path_takes(written: Path, column: str) -> None:
    spoil(written, column, "x" * 5000)
    with pytest.raises(ResultsError, match=f"has 5000 characters as `{column}` in line 2"):
        read_run(written)


@pytest.mark.parametrize(("column", "value"), [("t_event_ns", "0"), ("t_wall_ns", "9" * 400), ("calls", "0")])
def test_a_sample_that_no_run_writes(written: Path, column: str, value: str) -> None:
    spoil(samples_path(written), column, value)
    with pytest.raises(ResultsError, match=rf"one.samples.csv has '{value[:40]}' as `{column}` in line 2"):
        read_run(written)


def test_every_number_has_a_range() -> None:
    """But errors and ratios of them, which may be anything."""
    free = {"schema_version", "max_abs_err", "max_rel_err", "tolerance_ratio", "oracle_ratio", "oracle_factor"}
    for record, unlimited in ((ResultRow, free), (Sample, set())):
        hints = get_type_hints(record, include_extras=True)
        plain = {name for name, kind in hints.items() if set(get_args(kind) or (kind,)) & {int, float}}
        ranged = {name for name in plain if "Interval" in str(hints[name])}
        assert plain - ranged == unlimited
