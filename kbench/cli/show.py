"""`kbench show` and `report`: a saved run again, in any format, or as a page."""

from pathlib import Path

from kbench.cli import shared_flags
from kbench.cli.options import DocumentFlags, OutputFlags, command, option, switch
from kbench.core.errors import ExitCode, KbenchError, NothingSelectedError, ResultsError, UsageError
from kbench.core.model import Time
from kbench.storage import csvfile, journal_file, saved_runs
from kbench.storage.results import read_run
from kbench.storage.runfiles import LATEST, shown_path
from kbench.storage.saved_runs import find_path, find_run

MOST_RUNS = 200
"""Chosen. Runs of a history, the newest ones: each takes about 40 ms to read."""
NO_SAMPLES = "the raw samples are missing, so the figures could not be checked against them"


class _ShowFlags(OutputFlags):
    run: str = shared_flags.run()
    case: list[str] | None = shared_flags.cases()
    results: Path | None = shared_flags.results()


class _ReportFlags(DocumentFlags):
    run: str = shared_flags.run()
    file: Path | None = option("--output -o FILE", "File to write, - for stdout (default: beside the CSV)")
    history: bool = switch("--history", "All runs of a folder (RUN; default results), or all commits of a file")
    time: Time | None = shared_flags.time()
    slower: float | None = shared_flags.slower()
    results: Path | None = shared_flags.results()


@command(_ShowFlags)
def show(flags: _ShowFlags) -> int:
    """Show a saved run in full."""
    from kbench.report import run as report  # imports numpy, which completion does not need
    from kbench.report.saved_run import recall
    from kbench.report.table import as_markdown, as_text

    output, settings = flags.output(), flags.settings()
    run = find_run(flags.run, flags.results or settings.results)
    summary = recall(run, flags.case or ())
    blocks = report.blocks(summary, verbosity=output.verbosity, printed=True)
    path = str(run.path) if output.verbosity >= 0 else ""
    output.show(
        text=lambda: as_text([path, *blocks], output.width),
        json=lambda: report.render_json(summary, exit_code=ExitCode.OK, command="show", samples=True),
        csv=lambda: report.render_csv(summary),
        md=lambda: as_markdown(blocks),
    )
    return ExitCode.OK


@command(_ReportFlags)
def report(flags: _ReportFlags) -> int:
    """Write a run, a sweep or a history as one HTML page."""
    output, settings = flags.output(), flags.settings()
    folder = flags.results or settings.results
    to_stdout = flags.file is not None and str(flags.file) == "-"
    if output.wants_json and to_stdout:
        raise UsageError("`--json` contradicts `-o -`: stdout has one document", "write the page to a file")
    if not flags.history and (flags.time is not None or flags.slower is not None):
        raise UsageError("`--time` and `--slower` are about changes", "add `--history`, or `kbench compare OLD NEW`")
    if flags.history and (flags.run == LATEST or Path(flags.run).is_dir()):
        source = (folder if flags.run == LATEST else Path(flags.run)) / "history"
    else:
        source = find_path(flags.run, folder)
    text = _history(source, flags) if flags.history else page_of(source)
    if to_stdout:
        output.data(text)
        return ExitCode.OK
    path = flags.file or source.with_suffix(".history.html" if flags.history and source.is_file() else ".html")
    csvfile.replace_file(path, text + "\n", "write elsewhere with `-o FILE`")
    output.written("report", path)
    return ExitCode.OK


def page_of(path: Path) -> str:
    """Write the page of a results file."""
    from kbench.engine import journal
    from kbench.report.html.run import render_run
    from kbench.report.saved_run import recall
    from kbench.report.shown import Note

    source = shown_path(path)
    run = read_run(path, needs_samples=False)
    summary = recall(run)
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
    return render_run(summary, sweep=run.name if is_sweep else "", record=record, notes=notes, source=source)


def _history(path: Path, flags: _ReportFlags) -> str:
    """Write the history of the runs beside `path`, or if that is a results file, of its commits and of itself."""
    from kbench import history as verb
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
    found = verb.histories(runs, time=flags.time or Time.DEVICE, **shared_flags.given(margin=flags.slower))
    source = shown_path(path if path.is_file() else path.parent)
    count = len({point.started_utc for one in found for point in one.points})
    title = f"{count} run{'s' * (count != 1)} of {source}"
    return render_history(title, found, notes=notes, source=source)
