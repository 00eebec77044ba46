"""`kbench report`: a run, a sweep, a comparison or a published table as one HTML page."""

from dataclasses import dataclass, replace
from pathlib import Path

from kbench.cli import shared_flags
from kbench.cli.options import DocumentFlags, command
from kbench.cli.saved import find_path
from kbench.core.errors import ExitCode, KbenchError, UsageError
from kbench.core.model import Time
from kbench.storage import csvfile, journal_file, published, saved_runs
from kbench.storage.results import read_run
from kbench.storage.runfiles import shown_path
from kbench.storage.settings import Settings

NO_SAMPLES = "the raw samples are missing, so the figures could not be checked against them"


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReportFlags(DocumentFlags):
    run: str = shared_flags.run()
    file: Path | None = shared_flags.file("File to write, - for stdout (default: beside the CSV)")
    baseline: str | None = shared_flags.baseline("Compare with this run, or baseline, instead")
    time: Time | None = shared_flags.time()
    slower: float | None = shared_flags.slower()
    results: Path | None = shared_flags.results()


@command(_ReportFlags)
def main(flags: _ReportFlags) -> int:
    """Write a run, a sweep or a published table as one HTML page."""
    output, settings = flags.output(), flags.settings()
    folder = flags.results or settings.results
    to_stdout = flags.file is not None and str(flags.file) == "-"
    if output.wants_json and to_stdout:
        raise UsageError("`--json` contradicts `-o -`: stdout has one document", "write the page to a file")
    if flags.baseline is None and (flags.time is not None or flags.slower is not None):
        raise UsageError("`--time` and `--slower` need a comparison", "name what to compare with: `--baseline RUN`")
    source = find_path(flags.run, folder, settings)
    text = page_of(source, settings) if flags.baseline is None else _comparison(source, flags, folder)
    if to_stdout:
        output.data(text)
        return ExitCode.OK
    path = flags.file or source.with_suffix(".html")
    csvfile.replace_file(path, text + "\n", "write elsewhere with `-o FILE`")
    output.written("report", path)
    return ExitCode.OK


def page_of(path: Path, settings: Settings) -> str:
    """Write the page of a results file or a published table."""
    from kbench.engine import journal
    from kbench.report.html.run import render_run
    from kbench.report.html.sweep import render_sweep
    from kbench.report.saved_run import command_of, recall, recall_published
    from kbench.report.shown import Note

    source = shown_path(path)
    if published.is_published(path):
        rows = published.read_published(path)
        known = recall_published(rows)
        claims = {case.key: row.claimed for case, row in zip(known.cases, rows, strict=True)}
        devices = ", ".join(dict.fromkeys(row.gpu for row in rows if row.gpu))
        return render_sweep(path.stem, known, claims=claims, lead=devices, source=source)
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


def _comparison(path: Path, flags: _ReportFlags, folder: Path) -> str:
    from kbench import compare as verb
    from kbench.core.verdict import Thresholds
    from kbench.report.comparison import worst_first
    from kbench.report.html.comparison import render_comparison
    from kbench.storage import baselines

    new, name = read_run(path), str(flags.baseline)
    try:
        old = saved_runs.find_run(name, folder)
    except UsageError:
        old = baselines.load_baseline(new, name, folder / "baselines")
        old = replace(old, path=old.path.with_name(f"{name}.csv"))  # its file is named after the problem
    thresholds = Thresholds(**shared_flags.given(margin=flags.slower))
    found = verb.compare([old, new], thresholds=thresholds, time=flags.time or Time.DEVICE)
    return render_comparison(worst_first(found), thresholds.margin, shown_path(path))
