"""`kbench show` and `kbench export`: a saved run again, on the terminal or as a file of another format."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kbench.cli import completion
from kbench.cli.options import OutputFlags, SettingsFlags, command
from kbench.cli.output import Format, Output
from kbench.core.errors import ExitCode, MachineError
from kbench.core.events import Judged
from kbench.report import csvout, jsonout, markdown, samples, terminal
from kbench.report.stored import recall
from kbench.report.summary import RunSummary
from kbench.storage import results


class Target(StrEnum):
    """What a run can be exported to."""

    JSON = "json"
    MD = "md"
    CSV = "csv"
    HTML = "html"


RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Name, path or @latest", autocompletion=completion.runs)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowFlags(OutputFlags):
    """What `kbench show` can be told."""

    run: RunArgument = results.LATEST
    case: Annotated[list[str] | None, typer.Option("--case", metavar="GLOB", help="Cases to show")] = None
    samples: Annotated[bool, typer.Option("--samples", help="Draw the raw samples")] = False
    results: Annotated[Path | None, typer.Option("--results", metavar="DIR", help="Folder of the results")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFlags(SettingsFlags):
    """What `kbench export` can be told."""

    run: RunArgument = results.LATEST
    to: Annotated[Target, typer.Option("--to", help="Format to write")] = Target.JSON
    file: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="File to write (stdout)")] = None
    results: Annotated[Path | None, typer.Option("--results", metavar="DIR", help="Folder of the results")] = None


@command(ShowFlags)
def show(flags: ShowFlags) -> int:
    """Show a saved run in full."""
    output, settings = flags.output(), flags.settings()
    run = results.find_run(flags.run, flags.results or settings.results)
    judged, summary = recall(run, flags.case or ())
    if output.format is not Format.TEXT:
        output.data(_render(Target(output.format.value), summary, judged))
    elif flags.samples:
        output.data(samples.render_samples(summary, judged))
    else:
        output.data(f"{run.path}\n\n" + terminal.render_run(summary, verbosity=max(output.verbosity, 0)))
    return ExitCode.OK


@command(ExportFlags)
def export(flags: ExportFlags) -> int:
    """Convert a run to json, markdown, csv or html."""
    run = results.find_run(flags.run, flags.results or flags.settings().results)
    judged, summary = recall(run)
    text = _render(flags.to, summary, judged)
    if flags.file is None:
        Output().data(text)
        return ExitCode.OK
    try:
        flags.file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise MachineError(f"{flags.file} cannot be written: {error.strerror}", "write elsewhere with `-o`") from error
    Output().note(f"wrote {flags.file}")
    return ExitCode.OK


def _render(target: Target, summary: RunSummary, judged: tuple[Judged, ...]) -> str:
    match target:
        case Target.JSON:
            return jsonout.render_run(summary, judged, exit_code=ExitCode.OK, command="show")
        case Target.CSV:
            return csvout.render_rows(row for case in summary.cases for row in case.rows)
        case Target.MD:
            return markdown.render_run(summary)
        case Target.HTML:
            from kbench.report.html import render_run

            return render_run(summary, judged)
