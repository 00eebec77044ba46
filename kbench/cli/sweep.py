"""`kbench sweep`: many problems by many solutions."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kbench.cli import completion
from kbench.cli.options import command, parse_duration
from kbench.cli.run import RunFlags


class Until(StrEnum):
    """The last rung that a sweep goes to."""

    VERIFY = "verify"
    TIME = "time"


class Pair(StrEnum):
    """Which solutions belong to which problems."""

    NAME = "name"
    ALL = "all"
    MANIFEST = "manifest"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFlags(RunFlags):
    """What `kbench sweep` can be told beyond `kbench run`."""

    problem: Annotated[
        str,
        typer.Argument(
            metavar="[PROBLEMS]",
            help="Name, file, folder, glob, or manifest (.csv, .jsonl, - for lines on stdin)",
            autocompletion=completion.problems,
        ),
    ] = ""
    solutions: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SOLUTIONS]...", help="Names, files, folders or globs (those found by name)"),
    ] = None
    self_: Annotated[bool, typer.Option("--self", help="Judge each problem against itself (the solution `eager`)")] = (
        False
    )
    pair: Annotated[
        Pair | None, typer.Option("--pair", help="Which solutions to judge for a problem (folders: name, else all)")
    ] = None
    until: Annotated[Until, typer.Option("--until", help="The last step to take")] = Until.TIME
    device: Annotated[
        str | None, typer.Option("--devices", metavar="DEVICES", help="all, cpu, or indices such as 0,1 (all)")
    ] = None
    lanes: Annotated[
        int | None,
        typer.Option("--lanes", metavar="N", min=1, help="Judges at a time on each device (3; 1 on a CPU)"),
    ] = None
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="N", min=1, help="Builds at a time (one for each processor)")
    ] = None
    verify_limit: Annotated[
        float | None,
        typer.Option("--verify-limit", metavar="SECONDS", parser=parse_duration, help="Time to verify (300s)"),
    ] = None
    time_limit: Annotated[
        float | None,
        typer.Option("--time-limit", metavar="SECONDS", parser=parse_duration, help="Time to measure (300s)"),
    ] = None
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Go on with a sweep; what is done is not repeated")
    ] = None
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="With --resume, judge again what did not pass")
    ] = False
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="STATUS", help="With --resume, judge again what ended so; repeatable"),
    ] = None
    exit_first: Annotated[bool, typer.Option("--exitfirst", "-x", help="End at the first failure")] = False
    max_failures: Annotated[
        int | None, typer.Option("--max-failures", metavar="N", min=1, help="End after so many failures")
    ] = None
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML as well")] = None


@command(SweepFlags)
def main(flags: SweepFlags) -> int:
    """Judge many solutions of many problems; resumable."""
    from kbench.cli import sweeping

    return sweeping.sweep(flags)
