"""The results files: what is written is what is read, and what was touched is refused."""

import errno
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import make_row, make_samples

from kbench.core.errors import MachineError, ResultsError, UsageError
from kbench.core.model import SCHEMA_VERSION, Finding, Sample
from kbench.core.ranges import LARGEST
from kbench.report import document
from kbench.storage import csvfile, details, results
from kbench.storage.baselines import require_unedited
from kbench.storage.details import CaseDetails, RunDetails
from kbench.storage.results import ROW_COLUMNS, RunWriter, default_stem, read_run
from kbench.storage.rows import TIME_COLUMNS, figures
from kbench.storage.runfiles import samples_path


def test_round_trip(tmp_path: Path) -> None:
    rows = [make_row(process=p, reason='a "quoted", text\nin two lines') for p in range(3)]
    samples = [make_samples(process=p) for p in range(3)]
    with RunWriter(tmp_path, "trip") as writer:
        finished = tuple(writer.append(row, own) for row, own in zip(rows, samples, strict=True))
    run = read_run(tmp_path / "trip.csv")
    assert run.rows == finished
    assert run.name == "trip"
    assert [replace(row, samples_sha256="") for row in run.rows] == rows
    assert [list(run.samples[("group_norm", "fast", "small", p)]) for p in range(3)] == [list(own) for own in samples]


texts = st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" "), max_size=40).filter(
    lambda text: not text.startswith(("=", "+", "-", "@"))
)


@settings(max_examples=40, deadline=None)
@given(
    reason=texts,
    speedup=st.none() | st.floats(min_value=1e-300, max_value=1e300),
    median=st.none() | st.integers(min_value=1, max_value=LARGEST),
    dirty=st.booleans(),
)
def test_any_row_survives(tmp_path_factory, reason, speedup, median, dirty):
    row = make_row(reason=reason, speedup=speedup, time_ns_median=median, git_dirty=dirty)
    with RunWriter(tmp_path_factory.mktemp("any"), "any") as writer:
        finished = writer.append(row, make_samples())
    assert read_run(writer.csv_path).rows == (finished,)


def test_the_times_of_a_row_are_order_statistics_of_its_samples() -> None:
    times = iter([10, 20, 30, 40])
    samples = [
        replace(s, t_event_ns=next(times)) if s.arm == "candidate" else s for s in make_samples(pairs=4, wobble=0)
    ]
    found = figures(samples)
    assert [found[name] for name in TIME_COLUMNS] == [25, 18, 32, 10, 150_000]
    assert {figures([])[name] for name in TIME_COLUMNS} == {None}


def test_a_long_message_is_cut(tmp_path: Path) -> None:
    with RunWriter(tmp_path, "long") as writer:
        writer.append(make_row(reason="x" * 1_000_000))
    assert len(read_run(writer.csv_path).rows[0].reason) == csvfile.LONGEST_TEXT + 2


def test_pandas_reads_it_without_arguments_and_absent_is_an_empty_cell(written: Path) -> None:
    frame = pd.read_csv(written)
    assert list(frame.columns) == list(ROW_COLUMNS)
    assert frame["time_ns_median"].notna().tolist() == [True, True, False]
    assert frame["git_dirty"].dtype == bool
    samples = pd.read_csv(samples_path(written))
    assert samples.groupby(["solution", "process", "arm"])["t_event_ns"].count().unique().tolist() == [20]
    failed = read_run(written).rows[-1]
    assert (failed.time_ns_median, failed.speedup, failed.samples_sha256) == (None, None, "")
    assert not {"None", "\r"} & set(re.findall(r"None|\r", written.read_bytes().decode()))


def test_every_append_leaves_both_files_complete(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, "live")
    writer.__enter__()
    for process in range(3):
        writer.append(make_row(process=process), make_samples(process=process))
        assert len(read_run(writer.csv_path).rows) == process + 1
    # No __exit__, as after SIGKILL: the files are what they are.
    assert len(read_run(tmp_path / "live.csv").rows) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["live.csv", "live.samples.csv"]


def test_a_crash_between_samples_and_rows_is_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunWriter(tmp_path, "between") as writer:
        writer.append(make_row(process=0), make_samples(process=0))
        monkeypatch.setattr(Path, "replace", crash_on_rows(Path.replace))
        with pytest.raises(KeyboardInterrupt):
            writer.append(make_row(process=1), make_samples(process=1))
    run = read_run(tmp_path / "between.csv")
    assert [row.process for row in run.rows] == [0]
    assert set(run.samples) == {("group_norm", "fast", "small", 0)}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["between.csv", "between.samples.csv"]


def crash_on_rows(real):
    def replace_or_crash(self, target):
        if not str(target).endswith(".samples.csv"):
            raise KeyboardInterrupt
        return real(self, target)

    return replace_or_crash


def test_disk_full_keeps_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunWriter(tmp_path, "full") as writer:
        writer.append(make_row(process=0), make_samples(process=0))

        def no_room(fd):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(csvfile.os, "fsync", no_room)
        with pytest.raises(MachineError, match="no room left") as caught:
            writer.append(make_row(process=1), make_samples(process=1))
        assert "--results DIR" in (caught.value.hint or "")
        assert caught.value.exit_code == 3
    assert len(read_run(tmp_path / "full.csv").rows) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full.csv", "full.samples.csv"]


def test_read_only_folder_is_known_before_measuring(tmp_path: Path) -> None:
    parent = tmp_path / "a-file"
    parent.write_text("in the way")
    with pytest.raises(MachineError, match="cannot be written") as caught, RunWriter(parent / "results", "x"):
        pass
    assert "--results DIR" in (caught.value.hint or "")


def test_names_that_kbench_gives_do_not_collide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "default_stem", lambda *_: "same")
    paths = []
    for _ in range(3):
        with RunWriter(tmp_path) as writer:
            writer.append(make_row(), make_samples())
            paths.append(writer.csv_path.name)
    assert paths == ["same.csv", "same-2.csv", "same-3.csv"]
    assert all(len(read_run(tmp_path / name).rows) == 1 for name in paths)


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    with RunWriter(tmp_path, "pr") as writer:
        writer.append(make_row(), make_samples())
    with pytest.raises(UsageError, match="a run named `pr` exists already"), RunWriter(tmp_path, "pr"):
        pass
    assert len(read_run(tmp_path / "pr.csv").rows) == 1


def test_a_run_without_rows_leaves_nothing(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "new", "empty"):
        assert len(list((tmp_path / "new").iterdir())) == 2
    assert list((tmp_path / "new").iterdir()) == []


def test_default_stem() -> None:
    stem = default_stem("group_norm", ["eager", "/home/me/my kernel.py"])
    assert stem.endswith("-group_norm-eager-my-kernel")
    assert default_stem("p", list("abcde")).endswith("-p-5-solutions")
    assert "/" not in default_stem("../../etc/passwd", ["../x"])


def test_samples_of_another_process(tmp_path: Path) -> None:
    with RunWriter(tmp_path, "x") as writer, pytest.raises(ValueError, match="samples of process 1"):
        writer.append(make_row(process=0), make_samples(process=1))


def test_a_row_takes_the_place_of_the_one_of_its_process(tmp_path: Path) -> None:
    with RunWriter(tmp_path, "again") as writer:
        for low in (None, 1.4):
            for process in range(2):
                row = replace(make_row(process=process), speedup_low=low)
                writer.append(row, make_samples(process=process))
    run = read_run(writer.csv_path)
    assert [(row.process, row.speedup_low) for row in run.rows] == [(0, 1.4), (1, 1.4)]
    assert len(run.samples) == 2


# --- what must be refused ------------------------------------------------------


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def take_samples(path: Path, samples: list[Sample]) -> None:
    """Give a run the samples file of another one."""
    with RunWriter(path.parent / "other", "other") as writer:
        for process in range(2):
            writer.append(make_row(process=process), [replace(sample, process=process) for sample in samples])
    samples_path(path).write_bytes(samples_path(writer.csv_path).read_bytes())


def write_one_arm(path: Path) -> None:
    with RunWriter(path.parent, path.stem, again=True) as writer:
        writer.append(make_row(), [sample for sample in make_samples() if sample.arm == "reference"])


def drop_a_sample(path: Path) -> None:
    lines = samples_path(path).read_text().splitlines(keepends=True)
    samples_path(path).write_text("".join(lines[:5] + lines[6:]))


def repeat_a_row(path: Path, old: str = "", new: str = "") -> None:
    text = path.read_text()
    path.write_text(text + text.splitlines(keepends=True)[1].replace(old, new))


EDITED = r"does not hold the samples of group_norm/fast/small, process 0"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: edit(samples_path(path), ",candidate,1", ",candidate,2"), EDITED),
        (drop_a_sample, EDITED),
        (lambda path: take_samples(path, make_samples(ratio=1.3)), EDITED),
        (write_one_arm, "does not hold times of both arms of group_norm/fast/small, process 0"),
        (lambda path: samples_path(path).unlink(), r"one.samples.csv is missing"),
        (repeat_a_row, "two rows for group_norm/fast/small, process 0"),
        (lambda path: repeat_a_row(path, "run-1", "run-2"), "mixes the rows of several runs"),
        (lambda path: edit(path, "True", "maybe"), "'maybe' as `git_dirty` in line 2"),
        (lambda path: edit(path, ",started_utc,", ",begun_utc,"), r"no `started_utc`, an unknown `begun_utc`"),
        (lambda path: edit(path, "schema_version,", "schema,"), "not a kbench results file"),
    ],
)
def test_what_somebody_changed_is_refused(written: Path, spoil: Callable[[Path], None], message: str) -> None:
    spoil(written)
    with pytest.raises(ResultsError, match=message):
        read_run(written)


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.95])
def test_a_truncated_file(written: Path, keep: float) -> None:
    data = written.read_bytes()
    written.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(ResultsError, match=r"truncated|cells instead of"):
        read_run(written)


@pytest.mark.parametrize("version", [1, SCHEMA_VERSION - 1, 99])
def test_another_schema_version_is_refused_with_the_way_out(written: Path, version: int) -> None:
    edit(written, f"\n{SCHEMA_VERSION},", f"\n{version},")
    with pytest.raises(
        ResultsError, match=f"line 2 has schema {version}; this kbench reads schema {SCHEMA_VERSION} only"
    ) as caught:
        read_run(written)
    assert caught.value.hint == "measure again with `kbench run PROBLEM`"


@pytest.mark.parametrize("path", sorted(Path("results/h200").glob("*.samples.csv"))[:1], ids=lambda path: path.name)
def test_runs_that_were_published_before_can_still_be_read(path: Path) -> None:
    run = read_run(path.with_name(path.name.replace(".samples", "")))
    assert require_unedited(run).rows


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *((content, None) for content in (b"", b"a\0b\n", b"hello\n", b"a,b\n1,2\n", b'"unfinished\n', b"\x00\x01\n")),
        (b"\xff\xfe\x00\n", "cannot be read"),
    ],
)
def test_something_else_entirely(tmp_path: Path, content: bytes, message: str | None) -> None:
    path = tmp_path / "else.csv"
    path.write_bytes(content)
    with pytest.raises(ResultsError, match=message):
        read_run(path)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)"])
def test_no_text_is_a_formula_to_a_spreadsheet(text: str) -> None:
    assert csvfile.cell(text) == f"\\x{ord(text[0]):02x}{text[1:]}"
    assert csvfile.cell(csvfile.cell(text)) == csvfile.cell(text)
    assert (csvfile.cell(-1), csvfile.cell(-1.5), csvfile.cell(f"a {text}")) == ("-1", "-1.5", f"a {text}")
    line = {"solution": text, "speedup": -1.5, "level": None}
    assert document.render_lines([line]).endswith(f"{csvfile.cell(text)},-1.5,")


HOSTILE = "a\x9b2J\u202eb\n::error::forged\tc"
"""A terminal's command of one character, letters that turn around, and a line of its own."""
HARMLESS = r"a\x9b2J\x202eb\x0a::error::forged\x09c"


def test_a_strangers_names_write_no_lines_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = dict.fromkeys(("problem", "solution", "case", "gpu_name", "torch"), HOSTILE)
    with monkeypatch.context() as patch:
        patch.setattr(csvfile, "_clean", str)  # written by another program
        with RunWriter(tmp_path, "hostile") as writer:
            writer.append(make_row(**names), make_samples())
    run = read_run(tmp_path / "hostile.csv")
    assert {getattr(run.rows[0], name) for name in names} == {HARMLESS}
    assert list(run.samples) == [(HARMLESS, HARMLESS, HARMLESS, 0)]
    assert replace(run, path=tmp_path / f"{HOSTILE}.csv").name == HARMLESS


def test_a_strangers_details_write_no_lines_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "hostile.csv"
    finding = Finding.note(HOSTILE, HOSTILE)
    case = CaseDetails(solution=HOSTILE, case="c", findings=(finding,), log="one\n\x9btwo", stage_s={HOSTILE: 1.0})
    details.write(path, RunDetails(started_utc="now", command=HOSTILE, cases=(case,)))
    found = details.read(path, "now")
    assert (found.command, found.cases[0].log) == (HARMLESS, "one\n\\x9btwo")
    assert (found.cases[0].findings[0].code, found.cases[0].solution) == (HARMLESS, HARMLESS)
    assert found.cases[0].stage_s == {HARMLESS: 1.0}


@pytest.mark.parametrize("which", ["rows", "samples"])
@pytest.mark.parametrize("mark", ["<<<<<<< HEAD", "=======", ">>>>>>> pr", "||||||| 1a2b3c4"])
def test_what_a_merge_left_in_a_file_is_named_with_its_line(written: Path, which: str, mark: str) -> None:
    path = written if which == "rows" else samples_path(written)
    header, *rest = path.read_text().splitlines()
    path.write_text("\n".join([header, *rest[:1], mark, *rest[1:]]) + "\n")
    with pytest.raises(ResultsError) as raised:
        read_run(written)
    assert f"{path}, line 3: a merge left its marks: `{mark}`" in str(raised.value)
    assert f"git checkout --ours -- {path}" in str(raised.value.hint)


@pytest.mark.parametrize("journal", ["{}\n", "", None], ids=["running or killed", "killed at once", "none"])
def test_a_run_without_a_verdict_is_to_be_resumed_or_restored(written: Path, journal: str | None) -> None:
    written.write_text(written.read_text().splitlines()[0] + "\n")
    message, hint = "has no rows", f"git checkout -- {written}"
    if journal is not None:
        written.with_suffix(".journal.jsonl").write_text(journal)
        message, hint = "has no verdict yet", f"`kbench run --resume {written.stem}`"
    with pytest.raises(ResultsError, match=message) as raised:
        read_run(written)
    assert hint in str(raised.value.hint)


def test_a_row_of_a_file_without_the_column_is_of_forward(tmp_path) -> None:
    with RunWriter(tmp_path, "old") as writer:
        writer.append(make_row(samples=0))
    lines = [line.split(",") for line in writer.csv_path.read_text().splitlines()]
    place = lines[0].index("timed")
    assert lines[1][place] == "forward"
    writer.csv_path.write_text("".join(",".join([*cells[:place], *cells[place + 1 :]]) + "\n" for cells in lines))
    assert [row.timed for row in read_run(writer.csv_path).rows] == ["forward"]


def test_a_row_of_another_case_than_it_times_is_refused(tmp_path) -> None:
    with RunWriter(tmp_path, "odd") as writer:
        writer.append(replace(make_row(case="small", samples=0), timed="forward+backward"))
    with pytest.raises(ResultsError, match="as `timed` of another case"):
        read_run(writer.csv_path)
