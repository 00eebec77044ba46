"""`kbench watch`: verify and quickly time a file at each save."""

import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbench.cli import completion
from kbench.cli.options import (
    SettingsFlags,
    argument,
    command,
    device_option,
    option,
    problem_argument,
    seconds_option,
    switch,
)
from kbench.cli.output import Output
from kbench.core.errors import ExitCode, UsageError
from kbench.plugins import registry

PROCESSES = 3
"""The interval of two processes is too wide to use: t is 12.7."""
BUDGET_S = 6.0
"""Chosen: short enough to wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchFlags(SettingsFlags):
    """Flags of `kbench watch`."""

    problem: str = problem_argument()
    file: Path = argument("FILE", "Solution file to watch")
    case: str | None = option("--case GLOB", "Only cases whose name matches", autocompletion=completion.cases)
    device: str | None = device_option()
    entry: str | None = option("--entry NAME", "Class or function of the solution file to judge (default ModelNew)")
    verify_only: bool = switch("--verify-only", "Verify, and time nothing")
    budget: float | None = seconds_option("--budget SECONDS", "Time to measure (default 6s)")


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
    try:
        with (
            Judge(lanes=1, config=flags.config, **options) as judge,
            closing(watch(judge, str(problem.path), flags.file, saves_of(flags.file), flags.entry)) as judged,
        ):
            output.note(f"watching {flags.file}; Ctrl-C ends it")
            for save in judged:
                saves += 1
                passed += all(case.result.passed for case in save.cases)
                output.data(render_save(save, saves))
    except KeyboardInterrupt:
        output.data(render_end(saves, passed))
    return ExitCode.OK
