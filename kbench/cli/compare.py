"""`kbench compare`: saved runs side by side, or the solutions of one run."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kbench.cli import completion
from kbench.cli.options import OutputFlags, TimeOption, command, parse_share


class By(StrEnum):
    """What is compared."""

    SOLUTION = "solution"
    RUN = "run"


class Only(StrEnum):
    """Which lines to show."""

    CHANGED = "changed"
    SLOWER = "slower"


class Sort(StrEnum):
    """Order of the lines."""

    VERDICT = "verdict"
    CHANGE = "change"
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareFlags(OutputFlags):
    """What `kbench compare` can be told."""

    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Names, paths or @latest; first the base", autocompletion=completion.runs),
    ]
    by: Annotated[By | None, typer.Option("--by", help="What to compare (solutions of one run, else runs)")] = None
    base: Annotated[
        str | None,
        typer.Option("--base", metavar="SOLUTION", help="Solution that the others are held against"),
    ] = None
    case: Annotated[list[str] | None, typer.Option("--case", metavar="GLOB", help="Cases to compare")] = None
    only: Annotated[Only | None, typer.Option("--only", help="Lines to show")] = None
    sort: Annotated[Sort, typer.Option("--sort", help="Order of the lines")] = Sort.VERDICT
    time: TimeOption = None
    slower: Annotated[
        float | None,
        typer.Option("--slower", metavar="SHARE", parser=parse_share, help="Margin (0.5%)"),
    ] = None
    confidence: Annotated[
        float | None,
        typer.Option("--confidence", metavar="SHARE", parser=parse_share, help="Of each bound (99%)"),
    ] = None
    any_gpu: Annotated[bool, typer.Option("--any-gpu", help="Show ratios between different GPUs")] = False
    results: Annotated[Path | None, typer.Option("--results", metavar="DIR", help="Folder of the results")] = None


@command(CompareFlags)
def main(flags: CompareFlags) -> int:
    """Compare saved runs, or the solutions of one run."""
    from kbench.cli import comparing  # brings numpy, which completing a word does without

    return comparing.compare(flags)
