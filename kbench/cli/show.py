"""`kbench show` and `kbench export`: a saved run again, on the terminal or in another format."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

from kbench.cli import shared_flags
from kbench.cli.options import DocumentFlags, OutputFlags, command, option, switch
from kbench.cli.output import Format
from kbench.cli.report import page_of
from kbench.cli.saved import find_path, find_run
from kbench.core.errors import ExitCode, UsageError
from kbench.core.events import Judged
from kbench.storage import csvfile
from kbench.storage.results import read_run

if TYPE_CHECKING:
    from kbench.report.summary import RunSummary

Target = Literal["json", "md", "csv", "summary", "html"]
"""Format of an export; `summary` is CSV with one row for each solution and case, as the text report shows them."""


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
    file: Path | None = shared_flags.file("File to write (default stdout, as with -)")
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
    texts = {"csv": run_formats.render_rows, "md": run_formats.render_markdown, "summary": run_formats.render_summary}
    return texts[target](summary)
