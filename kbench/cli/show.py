"""`kbench show`, `export` and `report`: a saved run again, on the terminal, in another format, or as a page."""

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

from kbench.cli import shared_flags
from kbench.cli.options import DocumentFlags, OutputFlags, command, option, switch
from kbench.cli.output import Format, Output
from kbench.core.errors import ExitCode, KbenchError, ResultsError, UsageError
from kbench.core.events import Judged
from kbench.core.model import Time
from kbench.plugins import places
from kbench.storage import csvfile, journal_file, published, saved_runs
from kbench.storage.results import Run, read_rows, read_run
from kbench.storage.runfiles import run_files, shown_path
from kbench.storage.settings import Settings

if TYPE_CHECKING:
    from kbench.report.summary import RunSummary

NO_SAMPLES = "the raw samples are missing, so the figures could not be checked against them"
Target = Literal["json", "md", "csv", "summary", "html"]
"""Format of an export; `summary` is CSV with one row for each solution and case, as the text report shows them."""


def find_path(name: str, folder: Path, settings: Settings) -> Path:
    """Find a run's file as `saved_runs.find_path` does. Raises UsageError, which names the latest run of a problem."""
    try:
        return saved_runs.find_path(name, folder)
    except UsageError as error:
        if name not in places.problem_names(settings):
            raise
        latest = next((run.name for run in reversed(saved_runs.list_runs(folder)) if name in run.problems), None)
        known = f"its latest run is `{latest}`" if latest else f"`kbench run {name}` makes a run of it"
        raise UsageError(error.message, f"`{name}` is a problem; {known}") from None


def find_run(name: str, folder: Path, settings: Settings) -> Run:
    """Read a run that a user named. Raises what `find_path` and `read_run` raise."""
    return read_run(find_path(name, folder, settings))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShowFlags(OutputFlags):
    run: str = shared_flags.run()
    case: list[str] | None = shared_flags.cases()
    samples: bool = switch("--samples", "Draw the raw samples")
    results: Path | None = shared_flags.results()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExportFlags(DocumentFlags):
    run: str = shared_flags.run()
    to: Target | None = option(
        "--to", "Format; summary: CSV, a row per case (default: by the ending of FILE, else json)"
    )
    file: Path | None = option("--output -o FILE", "File to write (default stdout, as with -)")
    results: Path | None = shared_flags.results()


@command(_ShowFlags)
def show(flags: _ShowFlags) -> int:
    """Show a saved run in full."""
    from kbench.report import samples, terminal  # imports numpy, which completion does not need
    from kbench.report.saved_run import recall

    output, settings = flags.output(), flags.settings()
    run = find_run(flags.run, flags.results or settings.results, settings)
    judged, summary = recall(run, flags.case or ())
    if output.format is not Format.TEXT:
        output.data(_render(output.format.value, summary, judged, "show"))
    elif flags.samples:
        output.text(samples.render_samples(summary, judged))
    else:
        text = terminal.render_run(summary, verbosity=output.verbosity, printed=True, width=output.width)
        output.text(text if output.verbosity < 0 else f"{run.path}\n\n{text}")
    return ExitCode.OK


@command(_ExportFlags)
def export(flags: _ExportFlags) -> int:
    """Convert a run to json, markdown, csv or html."""
    from kbench.report.saved_run import recall

    output, target = flags.output(), _target(flags)
    file = None if str(flags.file) == "-" else flags.file
    if output.wants_json and file is None and target != "json":
        raise UsageError(f"`--json` contradicts `--to {target}` on stdout", "write it to a file with `-o FILE`")
    settings = flags.settings()
    path = find_path(flags.run, flags.results or settings.results, settings)
    if target == "html":
        text = page_of(path, settings)
    else:
        judged, summary = recall(read_run(path))
        text = _render(target, summary, judged, "export")
    return _deliver(output, "export", text, file)


def _deliver(output: Output, command: str, text: str, file: Path | None) -> int:
    if file is None:
        output.data(text)
    else:
        csvfile.replace_file(file, text + "\n", "write elsewhere with `-o FILE`")
        output.written(command, file)
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
        return run_formats.render_json(summary, judged, exit_code=ExitCode.OK, command=command)
    texts = {"csv": run_formats.render_rows, "md": run_formats.render_markdown, "summary": run_formats.render_summary}
    return texts[target](summary)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReportFlags(DocumentFlags):
    run: str = shared_flags.run()
    file: Path | None = option("--output -o FILE", "File to write, - for stdout (default: beside the CSV)")
    baseline: str | None = option("--baseline RUN", "Compare with this run, or baseline, instead")
    time: Time | None = shared_flags.time()
    slower: float | None = shared_flags.slower()
    results: Path | None = shared_flags.results()


@command(_ReportFlags)
def report(flags: _ReportFlags) -> int:
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
    return _deliver(output, "report", text, None if to_stdout else flags.file or source.with_suffix(".html"))


def page_of(path: Path, settings: Settings) -> str:
    """Write the page of a results file or a published table; a run shows its sources if they are available."""
    from kbench.report.html.run import render_run
    from kbench.report.html.sources import listings
    from kbench.report.html.sweep import render_sweep
    from kbench.report.saved_run import command_of, recall
    from kbench.report.shown import Remark
    from kbench.report.swept_table import of_published, of_run
    from kbench.report.terminal import stack_line
    from kbench.sweep import journal

    if published.is_published(path):
        return render_sweep(of_published(path.stem, published.read_published(path)), shown_path(path))
    run = read_run(path, needs_samples=False)
    judged, summary = recall(run)
    missing = not run.samples and any(row.samples_sha256 for row in run.rows)
    notes = [Remark(kind="warning", text=NO_SAMPLES)] if missing else []
    written = path.with_name(path.stem + journal_file.SUFFIX)
    if not written.is_file() and len({row.problem for row in run.rows}) == 1:
        shown = listings(summary.cases, settings)
        repeat = command_of(run.rows, settings)
        return render_run(summary, judged, listings=shown, repeat=repeat, notes=notes, source=shown_path(path))
    try:
        told = journal.read(written) if written.is_file() else None
    except KbenchError as error:
        told, notes = None, [*notes, Remark(kind="warning", text=f"claims and rates are not shown: {error.message}")]
    return render_sweep(of_run(run.name, summary, stack_line(run.rows[0]), told, notes), shown_path(path))


def _comparison(path: Path, flags: _ReportFlags, folder: Path) -> str:
    from kbench import compare as verb
    from kbench.core.verdict import Thresholds
    from kbench.report.comparison import chosen
    from kbench.report.html.comparison import histories, render_comparison
    from kbench.storage import baselines

    new, name = read_run(path), str(flags.baseline)
    try:
        old = saved_runs.find_run(name, folder)
    except UsageError:
        old = baselines.load_baseline(new, name, folder / "baselines")
        old = replace(old, path=old.path.with_name(f"{name}.csv"))  # its file is named after the problem
    thresholds = Thresholds() if flags.slower is None else Thresholds(margin=flags.slower)
    found = verb.compare([old, new], thresholds=thresholds, time=flags.time or Time.DEVICE)
    others = {}
    for other in run_files(folder):
        with suppress(ResultsError):
            others[other.stem] = read_rows(other)
    history = histories(old.rows, others)
    return render_comparison(chosen(found, None, "verdict"), thresholds.margin, shown_path(path), history)
