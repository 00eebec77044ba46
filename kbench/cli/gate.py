"""`kbench gate`: fail a CI job on a regression, and only on a regression."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kbench.cli import completion
from kbench.cli.options import OutputFlags, TimeOption, command, parse_share


class Unclear(StrEnum):
    """What an unclear case does to the exit code."""

    PASS = "pass"  # noqa: S105  # no password
    WARN = "warn"
    FAIL = "fail"


class Missing(StrEnum):
    """What a case of the baseline that was not measured does to the exit code."""

    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFlags(OutputFlags):
    """What `kbench gate` can be told."""

    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Run (@latest); with --against: PROBLEM [SOLUTION]...",
            autocompletion=completion.runs,
        ),
    ] = None
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="REV", help="Measure this checkout and another commit side by side"),
    ] = None
    case: Annotated[
        list[str] | None, typer.Option("--case", metavar="GLOB", help="With --against: cases to measure")
    ] = None
    device: Annotated[
        str | None, typer.Option("--device", metavar="DEVICE", help="With --against: auto, cpu, cuda, cuda:INDEX")
    ] = None
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="NAME", help="Name, or path of a CSV (main)")
    ] = None
    time: TimeOption = None
    slower: Annotated[
        float | None,
        typer.Option("--slower", metavar="SHARE", parser=parse_share, help="Margin (0.5%)"),
    ] = None
    unclear: Annotated[Unclear | None, typer.Option("--unclear", help="What an unclear case does")] = None
    missing: Annotated[Missing | None, typer.Option("--missing", help="What a missing case does")] = None
    confirm: Annotated[bool, typer.Option("--confirm", help="Measure flagged cases afresh before they fail")] = False
    github: Annotated[bool, typer.Option("--github", help="Print annotations, write the step summary")] = False
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML")] = None
    summary: Annotated[Path | None, typer.Option("--summary", metavar="FILE", help="Append Markdown to a file")] = None
    strict: Annotated[bool, typer.Option("--strict", help="Same as --unclear fail")] = False
    results: Annotated[Path | None, typer.Option("--results", metavar="DIR", help="Folder of the results")] = None


@command(GateFlags)
def main(flags: GateFlags) -> int:
    """Fail when a run regresses against its baseline."""
    from kbench.cli import gating  # brings numpy, which completing a word does without

    return gating.gate(flags)
