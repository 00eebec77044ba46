"""How long a verdict took here, from the files of earlier runs."""

import csv
import os
from pathlib import Path

from kbench.storage import details
from kbench.storage.details import CaseDetails, RunDetails, last_duration_s

ASKED = {"problem_sha256": "abc", "overrides": {"n": 4, "m": 2}, "device": "CPU-1"}


def saved(folder: Path, name: str, age: int, stage_s: dict[str, float], **changes: str) -> None:
    row = {
        "started_utc": name,
        "problem_sha256": "abc",
        "overrides": '{"m": 2, "n": 4}',
        "gpu_uuid": "CPU-1",
        "status": "passed",
        "solution": "s",
        "case": "c",
        **changes,
    }
    path = folder / f"{name}.csv"
    with path.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, list(row))
        writer.writeheader()
        writer.writerow(row)
    details.write(path, RunDetails(started_utc=name, cases=(CaseDetails(solution="s", case="c", stage_s=stage_s),)))
    os.utime(path, (age, age))


def test_the_newest_run_of_the_same_on_the_same_device_counts(tmp_path):
    saved(tmp_path, "old", 1, {"verify": 9.0})
    saved(tmp_path, "new", 2, {"open": 1.0, "verify": 3.0})
    saved(tmp_path, "timed", 3, {"verify": 3.0, "time": 20.0})
    saved(tmp_path, "device", 4, {"verify": 70.0}, gpu_uuid="GPU-2")
    saved(tmp_path, "size", 5, {"verify": 71.0}, overrides='{"n": 5}')
    saved(tmp_path, "edited", 6, {"verify": 72.0}, problem_sha256="abd")
    saved(tmp_path, "failed", 7, {"verify": 73.0}, status="wrong_value")
    saved(tmp_path, "odd", 8, {"verify": 74.0}, overrides="{")
    assert last_duration_s(tmp_path, **ASKED, timed=False) == 4.0
    assert last_duration_s(tmp_path, **ASKED, timed=True) == 23.0


def test_no_run_no_figure(tmp_path):
    (tmp_path / "broken.csv").write_bytes(b"\xff\xfe")
    (tmp_path / "broken.details.json").write_text("{}")
    assert last_duration_s(tmp_path, **ASKED, timed=False) is None
    assert last_duration_s(tmp_path / "nowhere", **ASKED, timed=False) is None
