"""`kbench show`, `export` and `report`: a saved run again, on the terminal, in another format, or as a page."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

from kbench.cli import shared_flags
from kbench.cli.options import DocumentFlags, OutputFlags, command, option, switch
from kbench.cli.output import Format
from kbench.core.errors import ExitCode, KbenchError, NothingSelectedError, ResultsError, UsageError
from kbench.core.events import Judged
from kbench.core.model import Time
from kbench.storage import csvfile, journal_file, saved_runs
from kbench.storage.results import read_run
from kbench.storage.runfiles import LATEST, shown_path
from kbench.storage.saved_runs import find_path, find_run
from kbench.storage.settings import Settings

if TYPE_CHECKING:
    from kbench.report.summary import RunSummary

Target = Literal["json", "md", "csv", "html", "pytorch-benchmark"]
MOST_RUNS = 200
"""Chosen. Runs of a history, the newest ones: each takes about 40 ms to read."""
NO_SAMPLES = "the raw samples are missing, so the figures could not be checked against them"


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShowFlags(OutputFlags):
    run: str = shared_flags.run()
    case: list[str] | None = shared_flags.cases()
    results: Path | None = shared_flags.results()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExportFlags(DocumentFlags):
    run: str = shared_flags.run()
    to: Target | None = option(
        "--to",
        "Format (default: by the ending of FILE, else json)",
    )
    file: Path | None = shared_flags.file("File to write (default stdout, as with -)")
    results: Path | None = shared_flags.results()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReportFlags(DocumentFlags):
    run: str = shared_flags.run()
    file: Path | None = shared_flags.file("File to write, - for stdout (default: beside the CSV)")
    baseline: str | None = shared_flags.baseline("Compare with this run, or baseline, instead")
    history: bool = switch("--history", "All runs of a folder (RUN; default results), or all commits of a file")
    time: Time | None = shared_flags.time()
    slower: float | None = shared_flags.slower()
    results: Path | None = shared_flags.results()


@command(_ShowFlags)
def show(flags: _ShowFlags) -> int:
    """Show a saved run in full."""
    from kbench.report import terminal  # imports numpy, which completion does not need
    from kbench.report.saved_run import recall

    output, settings = flags.output(), flags.settings()
    run = find_run(flags.run, flags.results or settings.results)
    judged, summary = recall(run, flags.case or ())
    if output.format is not Format.TEXT:
        output.data(_render(output.format.value, summary, judged, "show"))
    else:
        text = terminal.render_run(summary, verbosity=output.verbosity, printed=True, width=output.width)
        output.text(text if output.verbosity < 0 else f"{run.path}\n\n{text}")
    return ExitCode.OK


@command(_ExportFlags)
def export(flags: _ExportFlags) -> int:
    """Convert a run to json, markdown, csv, html and others."""
    from kbench.report.saved_run import recall

    output, target = flags.output(), _target(flags)
    file = None if str(flags.file) == "-" else flags.file
    if output.wants_json and file is None and target != "json":
        raise UsageError(f"`--json` contradicts `--to {target}` on stdout", "write it to a file with `-o FILE`")
    settings = flags.settings()
    path = find_path(flags.run, flags.results or settings.results)
    if target == "html":
        text = page_of(path, settings)
    else:
        judged, summary = recall(read_run(path))
        text = _render(target, summary, judged, "export")
    if file is None:
        output.data(text)
    else:
        csvfile.replace_file(file, text + "\n", "write elsewhere with `-o FILE`")
        output.written("export", file)
    return ExitCode.OK


def _target(flags: _ExportFlags) -> Target:
    ending = flags.file.suffix.removeprefix(".").lower() if flags.file is not None else ""
    known = get_args(Target)
    if flags.to is None and ending and ending not in known:
        hint = f"name it `.{'`, `.'.join(known)}`, or choose a format with `--to`"
        raise UsageError(f"`{flags.file}`: cannot export to `{ending}`", hint)
    return flags.to or cast("Target", ending or "json")


def _render(target: str, summary: "RunSummary", judged: tuple[Judged, ...], command: str) -> str:
    from kbench.report import run_formats

    if target == "json":
        return run_formats.render_json(summary, judged, exit_code=ExitCode.OK, command=command, samples=True)
    texts = {"csv": run_formats.render_rows, "md": run_formats.render_markdown}
    return texts.get(target, run_formats.render_pytorch_benchmark)(summary)


@command(_ReportFlags)
def report(flags: _ReportFlags) -> int:
    """Write a run, a sweep or a history as one HTML page."""
    output, settings = flags.output(), flags.settings()
    folder = flags.results or settings.results
    to_stdout = flags.file is not None and str(flags.file) == "-"
    if output.wants_json and to_stdout:
        raise UsageError("`--json` contradicts `-o -`: stdout has one document", "write the page to a file")
    if flags.baseline is not None and flags.history:
        raise UsageError("`--baseline` compares two runs, and `--history` shows all", "leave out one of them")
    if flags.baseline is None and not flags.history and (flags.time is not None or flags.slower is not None):
        raise UsageError("`--time` and `--slower` need a comparison", "name what to compare with: `--baseline RUN`")
    if flags.history and (flags.run == LATEST or Path(flags.run).is_dir()):
        source = (folder if flags.run == LATEST else Path(flags.run)) / "history"
    else:
        source = find_path(flags.run, folder)
    make = _history if flags.history else page_of if flags.baseline is None else _comparison
    text = make(source, settings, flags)
    if to_stdout:
        output.data(text)
        return ExitCode.OK
    path = flags.file or source.with_suffix(".history.html" if flags.history and source.is_file() else ".html")
    csvfile.replace_file(path, text + "\n", "write elsewhere with `-o FILE`")
    output.written("report", path)
    return ExitCode.OK


def page_of(path: Path, settings: Settings, _flags: _ReportFlags | None = None) -> str:
    """Write the page of a results file."""
    from kbench.engine import journal
    from kbench.report.html.run import render_run
    from kbench.report.html.sweep import render_sweep
    from kbench.report.saved_run import command_of, recall
    from kbench.report.shown import Note

    source = shown_path(path)
    run = read_run(path, needs_samples=False)
    judged, summary = recall(run)
    missing = not run.samples and any(row.samples_sha256 for row in run.rows)
    notes = [Note(kind="warning", text=NO_SAMPLES)] if missing else []
    written = path.with_name(path.stem + journal_file.SUFFIX)
    record, is_sweep = None, len(summary.problems) > 1
    try:
        record = journal.read(written) if written.is_file() else None
        is_sweep = is_sweep or (record is not None and record.header.command == "sweep")
    except KbenchError as error:
        is_sweep = True
        notes = [*notes, Note(kind="warning", text=f"claims and rates are not shown: {error.message}")]
    if is_sweep:
        return render_sweep(run.name, summary, record=record, notes=notes, source=source)
    repeat = command_of(run.rows, settings)
    return render_run(summary, judged, repeat=repeat, notes=notes, source=source)


def _comparison(path: Path, settings: Settings, flags: _ReportFlags) -> str:
    from kbench import compare, history
    from kbench.core.verdict import Thresholds
    from kbench.report.comparison import worst_first
    from kbench.report.html.history import render_history
    from kbench.storage import baselines

    new, name, folder = read_run(path), str(flags.baseline), flags.results or settings.results
    try:
        old = saved_runs.find_run(name, folder)
    except UsageError:
        old = baselines.load_baseline(new, name, folder / "baselines")
        old = replace(old, path=old.path.with_name(f"{name}.csv"))  # its file is named after the problem
    thresholds = Thresholds(**shared_flags.given(margin=flags.slower))
    time, source = flags.time or Time.DEVICE, shown_path(path)
    found = worst_first(compare.compare([old, new], thresholds=thresholds, time=time))
    runs = history.histories([old, new], thresholds, time)
    return render_history("", runs, comparison=found, source=source)


def _history(path: Path, _settings: Settings, flags: _ReportFlags) -> str:
    """Write the history of the runs beside `path`, or if that is a results file, of its commits and of itself."""
    from kbench import history as verb
    from kbench.core.verdict import Thresholds
    from kbench.report.html.history import render_history
    from kbench.report.shown import Note
    from kbench.storage.versions import versions

    runs, notes = [*versions(path), read_run(path)] if path.is_file() else [], list[Note]()
    listed = [] if path.is_file() else saved_runs.list_runs(path.parent)
    if len(listed) > MOST_RUNS:
        notes.append(Note(kind="note", text=f"the newest {MOST_RUNS} of {len(listed)} runs are shown"))
    for one in listed[-MOST_RUNS:]:
        try:
            runs.append(read_run(one.path))
        except ResultsError as error:
            notes.append(Note(kind="warning", text=error.message))
    if not runs:
        raise NothingSelectedError(f"no run in {path.parent}", "`kbench run PROBLEM` makes one")
    thresholds = Thresholds(**shared_flags.given(margin=flags.slower))
    found = verb.histories(runs, thresholds, flags.time or Time.DEVICE)
    source = shown_path(path if path.is_file() else path.parent)
    return render_history(f"{len(runs)} runs of {source}", found, notes=notes, source=source)
