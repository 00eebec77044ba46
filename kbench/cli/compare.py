"""`kbench compare`: saved runs side by side, or the solutions of one run."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from kbench.cli import completion
from kbench.cli.options import OutputFlags, ResultsOption, SlowerOption, TimeOption, command, parse_share
from kbench.core.errors import ExitCode, NothingSelectedError
from kbench.core.model import Time


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
    """Flags of `kbench compare`."""

    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN", help="Runs: names, paths or @latest; the first is the base", autocompletion=completion.runs
        ),
    ]
    by: Annotated[By | None, typer.Option("--by", help="What to compare (default: solutions of one run, or runs)")] = (
        None
    )
    base: Annotated[
        str | None,
        typer.Option("--base", metavar="SOLUTION", help="Solution that the others are compared with"),
    ] = None
    case: Annotated[
        list[str] | None, typer.Option("--case", metavar="GLOB", help="Only cases whose name matches; repeatable")
    ] = None
    only: Annotated[Only | None, typer.Option("--only", help="Show only these lines")] = None
    sort: Annotated[Sort, typer.Option("--sort", help="Order of the lines")] = Sort.VERDICT
    time: TimeOption = None
    slower: SlowerOption = None
    confidence: Annotated[
        float | None,
        typer.Option(
            "--confidence", metavar="SHARE", parser=parse_share, help="Confidence level of each bound (default 99%)"
        ),
    ] = None
    any_gpu: Annotated[bool, typer.Option("--any-gpu", help="Show ratios between different GPUs")] = False
    results: ResultsOption = None


@command(CompareFlags)
def main(flags: CompareFlags) -> int:
    """Compare saved runs, or the solutions of one run."""
    from kbench import compare as verb  # imports numpy, which completion does not need
    from kbench.cli.saved import find_run
    from kbench.core.verdict import Thresholds
    from kbench.report import comparison as report

    output, settings = flags.output(), flags.settings()
    folder = flags.results or settings.results
    given = {"margin": flags.slower, "confidence": flags.confidence}
    found = verb.compare(
        [find_run(name, folder, settings) for name in flags.runs],
        by=flags.by.value if flags.by else None,
        base=flags.base,
        cases=tuple(flags.case or ()),
        thresholds=Thresholds(**{name: value for name, value in given.items() if value is not None}),
        any_gpu=flags.any_gpu,
        time=flags.time or Time.DEVICE,
    )
    if all(case.verdict is None for case in found.cases):
        raise NothingSelectedError(
            f"`{found.base}` is all there is: nothing to compare it with",
            "`kbench run PROBLEM A B` makes a run of two solutions, `kbench compare OLD NEW` takes two runs",
        )
    shown = report.chosen(found, flags.only.value if flags.only else None, flags.sort.value)
    output.show(
        text=lambda: report.render_text(shown, verbosity=output.verbosity, width=output.width),
        json=lambda: report.render_json(shown),
        csv=lambda: report.render_csv(shown),
        md=lambda: report.render_markdown(shown),
    )
    return ExitCode.OK
