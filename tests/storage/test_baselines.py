"""Baselines on disk: set, found, replaced, and refused where somebody edited them."""

import math
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from records import FIVE, acceptance, make_row, make_run, make_samples

from kbench.core.errors import MachineError, ResultsError, UsageError
from kbench.storage import baselines
from kbench.storage.results import Run, RunWriter, read_run
from kbench.storage.rows import figures
from kbench.storage.runfiles import samples_path

A = ("group_norm", "a", "small")


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


def test_acceptances_are_kept_in_a_file(tmp_path: Path) -> None:
    root, gpu = tmp_path / "b", "NVIDIA H200"
    assert baselines.load_acceptances(gpu, root) == ()
    other = replace(acceptance(), solution="b", reason='a "reason", with commas')
    baselines.accept(acceptance(), gpu, root)
    baselines.accept(other, gpu, root)
    baselines.accept(acceptance(up_to=3.05), gpu, root)
    assert baselines.load_acceptances(gpu, root) == (acceptance(up_to=3.05), other)
    assert baselines.in_force([acceptance()], date(2027, 1, 1)) == {}
    assert set(baselines.in_force([acceptance()], date(2026, 12, 31))) == {A}
    with pytest.raises(UsageError, match="needs a reason"):
        baselines.accept(replace(other, reason=" "), gpu, root)
    for bound in (0.0, -0.1, 1001.0, 1e9, math.inf, math.nan):
        with pytest.raises(UsageError, match="more than 0 and at most 1000"):
            baselines.accept(replace(other, up_to=bound), gpu, root)
    with pytest.raises(UsageError, match="a problem, a solution and a case"):
        baselines.accept(replace(other, case=""), gpu, root)
    assert baselines.load_acceptances(gpu, root) == (acceptance(up_to=3.05), other)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("group_norm,a,small,nan,2026-12-31,x", "wrong in line 2: .*, not nan"),
        ("group_norm,a,small,inf,2026-12-31,x", "wrong in line 2: .*, not inf"),
        ("group_norm,a,small,-inf,2026-12-31,x", "wrong in line 2: .*, not -inf"),
        ("group_norm,a,small,1e9,2026-12-31,x", "wrong in line 2: .*, not 1000000000.0"),
        ("group_norm,a,small,0,2026-12-31,x", "wrong in line 2: .*, not 0.0"),
        ("group_norm,a,small,-0.1,2026-12-31,x", "wrong in line 2: .*, not -0.1"),
        ("group_norm,a,small,8%,2026-12-31,x", "'8%' as `up_to` in line 2"),
        ("group_norm,a,small,,2026-12-31,x", "'' as `up_to` in line 2"),
        ("group_norm,a,small,0.08,2026-12-31,", "wrong in line 2: an accepted slow-down needs a reason"),
        ("group_norm,a,small,0.08,2026-12-31,  ", "wrong in line 2: an accepted slow-down needs a reason"),
        ("group_norm,a,small,0.08,2026-13-45,x", "'2026-13-45' as `until` in line 2"),
        ("group_norm,a,small,0.08,soon,x", "'soon' as `until` in line 2"),
        ("group_norm,a,small,0.08,,x", "'' as `until` in line 2"),
        ("group_norm,,small,0.08,2026-12-31,x", "wrong in line 2: .* a problem, a solution and a case"),
        ("group_norm,a,small,0.08,2026-12-31", "5 cells instead of 6 in line 2"),
        (
            "group_norm,a,small,0.08,2026-12-31,x\ngroup_norm,a,small,0.5,2026-12-31,y",
            "group_norm/a/small a second time in line 3",
        ),
    ],
)
def test_an_edited_acceptance_is_refused(tmp_path: Path, line: str, message: str) -> None:
    path = baselines.accept(acceptance(), "NVIDIA H200", tmp_path)
    header = path.read_text().splitlines()[0]
    path.write_text(f"{header}\n{line}\n")
    with pytest.raises(ResultsError, match=message) as caught:
        baselines.load_acceptances("NVIDIA H200", tmp_path)
    assert caught.value.message.startswith(str(path))
    assert caught.value.hint == f"correct that line, or restore the file with `git checkout -- {path}`"


def test_acceptances_with_other_columns_are_refused(tmp_path: Path) -> None:
    path = baselines.accept(acceptance(), "NVIDIA H200", tmp_path)
    path.write_text("until,reason\n")
    with pytest.raises(ResultsError, match="no `problem`"):
        baselines.load_acceptances("NVIDIA H200", tmp_path)
