"""`kbench list`: problems, the solutions and cases of one, and saved runs. Nothing is imported to list it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from kbench.cli import completion
from kbench.cli.options import OutputFlags, command


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFlags(OutputFlags):
    """What `kbench list` can be told."""

    problem: Annotated[
        str | None,
        typer.Argument(metavar="PROBLEM", help="List one's solutions", autocompletion=completion.problems),
    ] = None
    cases: Annotated[bool, typer.Option("--cases", help="List the problem's cases instead")] = False
    runs: Annotated[bool, typer.Option("--runs", help="List saved runs instead")] = False
    results: Annotated[Path | None, typer.Option("--results", metavar="DIR", help="Folder of the results")] = None


@command(ListFlags)
def main(flags: ListFlags) -> int:
    """List problems, solutions, cases and runs."""
    from kbench.cli import listing

    return listing.list_(flags)
