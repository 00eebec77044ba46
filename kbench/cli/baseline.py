"""`kbench baseline`: show, set and accept what runs are held against. The files are for git."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from kbench.cli import completion
from kbench.cli.command import Command, Group
from kbench.cli.options import DocumentFlags, OutputFlags, command, parse_share
from kbench.storage.runfiles import LATEST

ResultsFlag = Annotated[Path | None, typer.Option("--results", metavar="DIR", help="Folder of the results")]


def parse_date(text: str) -> date:
    """Read `2026-12-31`."""
    try:
        return date.fromisoformat(str(text))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a date; write `2026-12-31`") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowFlags(OutputFlags):
    """What `kbench baseline show` can be told."""

    results: ResultsFlag = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFlags(DocumentFlags):
    """What `kbench baseline set` can be told."""

    run: Annotated[str, typer.Argument(metavar="RUN", help="Name, path or @latest", autocompletion=completion.runs)] = (
        LATEST
    )
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name of the baseline (main)")] = None
    results: ResultsFlag = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptFlags(DocumentFlags):
    """What `kbench baseline accept` can be told."""

    case: Annotated[str, typer.Argument(metavar="CASE", help="PROBLEM/SOLUTION/CASE, or its unique end")]
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why it is meant to be slower")]
    until: Annotated[date, typer.Option("--until", metavar="DATE", parser=parse_date, help="Last day")]
    up_to: Annotated[float, typer.Option("--up-to", metavar="SHARE", parser=parse_share, help="Largest slow-down")]
    run: Annotated[
        str, typer.Option("--run", metavar="RUN", help="Run that shows it", autocompletion=completion.runs)
    ] = LATEST
    results: ResultsFlag = None


@command(ShowFlags)
def show(flags: ShowFlags) -> int:
    """Show all baselines and accepted slow-downs."""
    from kbench.cli import baselining  # brings numpy, which completing a word does without

    return baselining.show(flags)


@command(SetFlags)
def set_(flags: SetFlags) -> int:
    """Make a run the baseline of its problem and device model."""
    from kbench.cli import baselining

    return baselining.set_(flags)


@command(AcceptFlags)
def accept(flags: AcceptFlags) -> int:
    """Accept a slow-down of one case until a date."""
    from kbench.cli import baselining

    return baselining.accept(flags)


app = typer.Typer(cls=Group, rich_markup_mode=None)
app.command("show", cls=Command)(show)
app.command("set", cls=Command)(set_)
app.command("accept", cls=Command)(accept)
