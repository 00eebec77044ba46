"""`kbench show` and `kbench export`: a saved run again, on the terminal or as a file of another format."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kbench.cli import completion
from kbench.cli.options import DocumentFlags, OutputFlags, command
from kbench.storage.runfiles import LATEST


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

    run: RunArgument = LATEST
    case: Annotated[list[str] | None, typer.Option("--case", metavar="GLOB", help="Cases to show")] = None
    samples: Annotated[bool, typer.Option("--samples", help="Draw the raw samples")] = False
    results: Annotated[Path | None, typer.Option("--results", metavar="DIR", help="Folder of the results")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFlags(DocumentFlags):
    """What `kbench export` can be told."""

    run: RunArgument = LATEST
    to: Annotated[Target | None, typer.Option("--to", help="Format to write (ending of FILE, else json)")] = None
    file: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="File to write (stdout)")] = None
    results: Annotated[Path | None, typer.Option("--results", metavar="DIR", help="Folder of the results")] = None


@command(ShowFlags)
def show(flags: ShowFlags) -> int:
    """Show a saved run in full."""
    from kbench.cli import showing  # brings numpy, which completing a word does without

    return showing.show(flags)


@command(ExportFlags)
def export(flags: ExportFlags) -> int:
    """Convert a run to json, markdown, csv or html."""
    from kbench.cli import showing

    return showing.export(flags)
