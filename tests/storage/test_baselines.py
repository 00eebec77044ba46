"""Baselines on disk: set, found, replaced, and refused where somebody edited them."""

from pathlib import Path

import pytest
from records import FIVE, make_row, make_run, make_samples

from kbench.core.errors import MachineError, ResultsError, UsageError
from kbench.storage import baselines
from kbench.storage.results import Run, RunWriter, read_run
from kbench.storage.rows import figures
from kbench.storage.runfiles import samples_path


@pytest.fixture
def main(tmp_path: Path) -> Run:
    return make_run(tmp_path, "main", {"a": FIVE, "b": FIVE})


def test_a_baseline_is_set_found_and_replaced(main: Run, tmp_path: Path) -> None:
    root = tmp_path / "baselines"
    with pytest.raises(MachineError, match="no baseline `main` of group_norm on NVIDIA H200") as caught:
        baselines.load_baseline(main, root=root)
    assert caught.value.hint == "`kbench baseline set main` makes this run the baseline"
    path = baselines.set_baseline(main, root=root)
    assert path == root / "nvidia-h200" / "main" / "group_norm.csv"
    assert baselines.load_baseline(main, root=root).rows == main.rows
    assert path.read_bytes() == main.path.read_bytes()
    baselines.set_baseline(make_run(tmp_path, "next", {"a": [0.55, 0.56]}), root=root)
    assert {row.run_id for row in baselines.load_baseline(main, root=root).rows} == {"next"}
    assert baselines.load_baseline(main, str(main.path)).rows == main.rows
    ((found, rows),) = baselines.list_baselines(root).items()
    assert (found, {row.run_id for row in rows}) == (path, {"next"})
    with pytest.raises(MachineError) as caught:
        baselines.load_baseline(main, "mian", root)
    assert caught.value.hint == "did you mean `main`?"


def test_an_edited_baseline_is_refused(main: Run, tmp_path: Path) -> None:
    path = baselines.set_baseline(main, root=tmp_path / "b")
    beside = samples_path(path)
    beside.write_text(beside.read_text().replace(",candidate,7", ",candidate,8", 1))
    with pytest.raises(ResultsError, match="does not hold the samples"):
        baselines.load_baseline(main, root=tmp_path / "b")


def test_what_cannot_be_a_baseline(main: Run, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing in it passed"):
        baselines.set_baseline(make_run(tmp_path, "bad", {"a": []}), root=tmp_path / "b")
    for name in ("../elsewhere", "x" * 300):
        with pytest.raises(UsageError, match="not a valid name of a baseline"):
            baselines.set_baseline(main, name, tmp_path / "b")
    with pytest.raises(UsageError, match="too long for a baseline"):
        baselines.load_baseline(make_run(tmp_path, "long", {"a": FIVE}, problem="é" * 150), root=tmp_path / "b")
    with RunWriter(tmp_path, "two") as writer:
        for problem in ("p", "q"):
            writer.append(make_row(problem=problem, **figures(make_samples())), make_samples())
    with pytest.raises(UsageError, match="holds 2 problems: p, q"):
        baselines.set_baseline(read_run(writer.csv_path), root=tmp_path / "b")
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="cannot be written"):
        baselines.set_baseline(main, root=tmp_path / "file")
