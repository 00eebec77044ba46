"""`kbench watch`: verify and quickly time a file at each save."""

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbench.cli import completion
from kbench.cli.options import DeviceOption, SettingsFlags, command, parse_duration
from kbench.cli.output import Output
from kbench.core.errors import ExitCode, UsageError
from kbench.core.events import StageEvent, StageFinished
from kbench.plugins import registry

if TYPE_CHECKING:
    from kbench.api.evaluation import EvaluationResult
    from kbench.api.judge import Judge
    from kbench.cli.progress import Progress

PROCESSES = 3
"""The interval of two processes is too wide to use: t is 12.7."""
BUDGET_S = 6.0
"""Chosen: short enough to wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchFlags(SettingsFlags):
    """Flags of `kbench watch`."""

    problem: Annotated[
        str, typer.Argument(metavar="PROBLEM", help="Problem: a name or a path", autocompletion=completion.problems)
    ]
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Solution file to watch")]
    case: Annotated[
        str | None,
        typer.Option("--case", metavar="GLOB", help="Only cases whose name matches", autocompletion=completion.cases),
    ] = None
    device: DeviceOption = None
    entry: Annotated[
        str | None,
        typer.Option(
            "--entry", metavar="NAME", help="Class or function of the solution file to judge (default ModelNew)"
        ),
    ] = None
    verify_only: Annotated[bool, typer.Option("--verify-only", help="Verify, and time nothing")] = False
    budget: Annotated[
        float | None,
        typer.Option("--budget", metavar="SECONDS", parser=parse_duration, help="Time to measure (default 6s)"),
    ] = None


class Shown:
    """A judge whose stages are shown while it judges a save."""

    judge: "Judge"

    def __init__(self, output: Output):
        self._output = output
        self._progress: Progress | None = None

    def evaluate(self, problem: str, solution: Path, *, entry: str | None = None) -> "Sequence[EvaluationResult]":
        """Judge a solution; one result for each case."""
        from kbench.cli.progress import progress_for

        with progress_for(self._output) as self._progress:
            return self.judge.evaluate(problem, solution, entry=entry)

    def show(self, event: StageEvent) -> None:
        """Show a stage; why one failed is in the verdict."""
        if self._progress is not None and not (isinstance(event, StageFinished) and not event.ok):
            self._progress.show(event)


@command(WatchFlags)
def main(flags: WatchFlags) -> int:
    """Verify and quickly time a file at each save."""
    from kbench.api.judge import Judge  # imports numpy, which completion does not need
    from kbench.report.watched import render_end, render_save
    from kbench.watch import saves_of, watch

    output, settings = Output(), flags.settings()
    problem = registry.find_problem(flags.problem, settings)
    known = registry.solutions(problem, settings)
    named = [one.path for one in known if one.builtin is None and one.name == str(flags.file)]
    if named and not flags.file.exists():
        raise UsageError(
            f"`{flags.file}` is a name, and a file is watched", f"its file is `{os.path.relpath(named[0])}`"
        )
    registry.find_solution(problem, flags.file, settings, entry=flags.entry)  # refuses what is no solution
    options: dict[str, Any] = {"device": flags.device or settings.run.device, "verify_only": flags.verify_only}
    options |= {"processes": PROCESSES, "max_processes": PROCESSES, "budget_s": flags.budget or BUDGET_S}
    options |= {"cases": flags.case} if flags.case is not None else {}
    saves = passed = 0
    shown = Shown(output)
    try:
        with Judge(lanes=1, config=flags.config, on_stage=shown.show, **options) as judge:
            shown.judge = judge
            output.note(f"watching {flags.file} and the files that it imports; Ctrl-C ends it")
            with closing(watch(shown, str(problem.path), flags.file, saves_of(flags.file), flags.entry)) as judged:
                for save in judged:
                    saves += 1
                    passed += all(case.result.passed for case in save.cases)
                    output.data(render_save(save, saves))
    except KeyboardInterrupt:
        output.data(render_end(saves, passed))
    return ExitCode.OK
