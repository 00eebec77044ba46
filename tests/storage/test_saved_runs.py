"""Runs are found by their names and listed, whatever else lies beside them, and say how long they took."""

import csv
import os
from pathlib import Path

import pytest
from records import make_row, make_samples

from kbench.core.errors import UsageError
from kbench.storage import details
from kbench.storage.details import CaseDetails, RunDetails, last_duration_s
from kbench.storage.results import RunWriter
from kbench.storage.saved_runs import find_path, find_run, list_runs


def test_find_run(tmp_path: Path) -> None:
    for name, started in [("b-old", "2026-01-01T00:00:00Z"), ("a-new", "2026-02-01T00:00:00Z")]:
        with RunWriter(tmp_path, name) as writer:
            writer.append(make_row(started_utc=started), make_samples())
    for name in ("@latest", "a-"):
        assert find_run(name, tmp_path).name == "a-new"
    for name in ("@latest~1", "old", "b-old", "b-old.csv"):
        assert find_run(name, tmp_path).name == "b-old"
    with pytest.raises(UsageError, match="has 2 runs"):
        find_run("@latest~2", tmp_path)
    assert find_run(str(tmp_path / "b-old.csv"), Path("elsewhere")).name == "b-old"
    with pytest.raises(UsageError) as caught:
        find_run("b-odl", tmp_path)
    assert caught.value.hint == "did you mean `b-old`?"
    with pytest.raises(UsageError, match="no run in"):
        find_run("@latest", tmp_path / "none")
    with pytest.raises(UsageError, match=r"2 runs in .* have `-` in their names") as caught:
        find_run("-", tmp_path)
    assert "`a-new` and `b-old`" in caught.value.hint


@pytest.mark.parametrize("name", ["größe", "核" * 60, "v1.2+fast_b"])
def test_a_run_is_found_by_the_name_that_it_was_given(name: str, tmp_path: Path) -> None:
    with RunWriter(tmp_path, name) as writer:
        writer.append(make_row())
    assert find_run(name[:40], tmp_path).path == writer.csv_path


def test_a_folder_and_a_missing_file_are_with_unique_names_from_a_name(tmp_path: Path, written: Path) -> None:
    folder, missing = tmp_path / "folder", tmp_path / "oen.csv"
    folder.mkdir()
    with pytest.raises(UsageError, match="folder is a folder, not a run") as caught:
        find_path(str(folder), tmp_path)
    assert caught.value.hint == f"`kbench list --runs --results {folder}` shows its runs"
    with pytest.raises(UsageError, match=f"^no file {missing}$") as caught:
        find_path(str(missing), tmp_path)
    assert caught.value.hint == "did you mean `one`?"


def test_a_run_that_judged_nothing_is_not_the_latest(tmp_path: Path) -> None:
    def save(name: str, started: str, *statuses: str) -> None:
        with RunWriter(tmp_path, name) as writer:
            for number, status in enumerate(statuses):
                writer.append(make_row(run_id=name, started_utc=started, status=status, process=number))

    save("skipped", "2026-03-01T00:00:00Z", "skipped", "skipped")
    with pytest.raises(UsageError, match="judged a solution: all were skipped") as caught:
        find_path("@latest", tmp_path)
    assert caught.value.hint == "`kbench show skipped` shows why"
    save("whole", "2026-01-01T00:00:00Z", "skipped", "raised")
    assert find_path("@latest", tmp_path).stem == "whole"
    assert find_path("skipped", tmp_path).stem == "skipped"


def test_list_runs_shows_a_broken_file_as_broken(tmp_path: Path, written: Path) -> None:
    (tmp_path / "zzz.csv").write_text("nonsense\n")
    broken, whole = list_runs(tmp_path)
    assert "not a kbench results file" in broken.broken
    assert (whole.path.stem, [row.solution for row in whole.rows]) == ("one", ["fast", "fast", "broken"])
    assert find_run("@latest", tmp_path).name == "one"


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
