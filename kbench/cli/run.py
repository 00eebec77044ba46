"""`kbench run` and `kbench verify`: verdicts and times of solutions."""

import shlex
import sys
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from kbench.cli import completion
from kbench.cli.command import show_all
from kbench.cli.options import (
    Crosscheck,
    DeviceOption,
    Mode,
    OutputFlags,
    ResultsOption,
    command,
    parse_duration,
    parse_overrides,
    parse_share,
)
from kbench.cli.output import Output
from kbench.core.errors import ExitCode, KbenchError, UsageError
from kbench.core.events import OF_THE_REFERENCE, Event, Judged, Planned, RunOptions, Saved, StageFinished
from kbench.core.levels import Level, require_codes
from kbench.core.model import Status
from kbench.plugins import registry
from kbench.plugins.registry import Entry
from kbench.storage.runfiles import run_files
from kbench.storage.settings import Settings

if TYPE_CHECKING:
    from kbench.report.summary import RunSummary

CLOCK_STEP_S = 0.02
"""A file's time may lag behind the clock by a tick of the kernel."""
INCONCLUSIVE_FLAGS = frozenset({"unstable", "imprecise", "resolution_limited", "throttled", "interference"})
"""Flags of a row that `--strict` does not let pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyFlags(OutputFlags):
    """Flags of `kbench verify`."""

    problem: Annotated[
        str, typer.Argument(metavar="PROBLEM", help="Problem: a name or a path", autocompletion=completion.problems)
    ]
    solutions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOLUTION",
            help="Solutions: names or paths (default: all that run on the device)",
            autocompletion=completion.solutions,
        ),
    ] = None
    case: Annotated[
        list[str] | None,
        typer.Option(
            "--case", metavar="GLOB", help="Only cases whose name matches; repeatable", autocompletion=completion.cases
        ),
    ] = None
    entry: Annotated[
        str | None,
        typer.Option(
            "--entry", metavar="NAME", help="Class or function of the solution file to judge (default ModelNew)"
        ),
    ] = None
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Override a constant of the problem; repeatable"),
    ] = None
    device: DeviceOption = None
    import_timeout: Annotated[
        float | None,
        typer.Option("--import-timeout", metavar="SECONDS", parser=parse_duration, help="Import timeout (default 60s)"),
    ] = None
    build_timeout: Annotated[
        float | None,
        typer.Option("--build-timeout", metavar="SECONDS", parser=parse_duration, help="Build timeout (default 300s)"),
    ] = None
    call_timeout: Annotated[
        float | None,
        typer.Option(
            "--call-timeout",
            metavar="SECONDS",
            parser=parse_duration,
            help="Timeout of one call (default 10s or 50 x the reference)",
        ),
    ] = None
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            parser=parse_duration,
            help="Timeout of each solution in total (default none)",
        ),
    ] = None
    isolation: Annotated[
        int | None,
        typer.Option("--isolation", metavar="RUNG", min=0, help="Fail unless the sandbox reaches this rung"),
    ] = None
    trusted: Annotated[bool, typer.Option("--trusted", help="Trust the solution: run it with a lighter sandbox")] = (
        False
    )
    level: Annotated[
        Level | None,
        typer.Option("--level", help="Level that a solution must hold (default module)", case_sensitive=False),
    ] = None
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept",
            metavar="CODE",
            help="Accept a solution that lacks this property; repeatable",
            autocompletion=completion.properties,
        ),
    ] = None
    backward: Annotated[bool, typer.Option("--backward", help="Verify gradients as well")] = False
    require_custom: Annotated[
        bool, typer.Option("--require-custom", help="Fail a solution without a kernel of its own")
    ] = False
    sanitize: Annotated[
        bool | None,
        typer.Option(
            "--sanitize/--no-sanitize", help="Run compute-sanitizer first (default: only after an illegal access)"
        ),
    ] = None
    allow_tf32: Annotated[bool, typer.Option("--allow-tf32", help="Allow TF32 on both sides")] = False
    eval_mode: Annotated[bool, typer.Option("--eval", help="Run both sides in eval mode")] = False
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name of the saved run")] = None
    no_save: Annotated[bool, typer.Option("--no-save", help="Write no files")] = False
    results: ResultsOption = None
    help_all: Annotated[
        bool, typer.Option("--help-all", is_eager=True, callback=show_all, help="Show all options and exit")
    ] = False
    strict: Annotated[bool, typer.Option("--strict", help="Exit 4 when a result is inconclusive")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFlags(VerifyFlags):
    """Flags of `kbench run`, besides those of `kbench verify`."""

    processes: Annotated[
        int | None, typer.Option("--processes", metavar="N", min=1, help="Least number of processes (default 3)")
    ] = None
    max_processes: Annotated[
        int | None, typer.Option("--max-processes", metavar="N", min=1, help="Largest number of processes (default 10)")
    ] = None
    precision: Annotated[
        float | None,
        typer.Option(
            "--precision",
            metavar="SHARE",
            parser=parse_share,
            help="Stop when the 95 % interval is ± this (default 0.3%)",
        ),
    ] = None
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            metavar="SECONDS",
            parser=parse_duration,
            help="Time to measure each solution and case (default 20s)",
        ),
    ] = None
    quick: Annotated[bool, typer.Option("--quick", help="Measure in one process only")] = False
    mode: Annotated[Mode | None, typer.Option("--mode", help="Cache state before each timed call (default cold)")] = (
        None
    )
    lock_clocks: Annotated[
        int | None,
        typer.Option(
            "--lock-clocks", metavar="MHZ", min=1, help="Lock the SM clock while measuring (needs privileges)"
        ),
    ] = None
    crosscheck: Annotated[
        Crosscheck | None, typer.Option("--crosscheck", help="Compare with kernel times from the profiler")
    ] = None


@command(RunFlags)
def run(flags: RunFlags) -> int:
    """Verify, then time, one or more solutions of a problem."""
    return _judge("run", flags, timing=flags)


@command(VerifyFlags)
def verify(flags: VerifyFlags) -> int:
    """Verify only."""
    return _judge("verify", flags, timing=None)


def _judge(name: str, flags: VerifyFlags, timing: RunFlags | None) -> int:
    """Judge and report; without `timing`, verify only."""
    from kbench.report import csvout, jsonout, markdown, terminal  # imports numpy, which completion does not need
    from kbench.report.saved_run import details_of
    from kbench.run.plan import choose_solutions
    from kbench.storage import details

    output, settings = flags.output(), flags.settings()
    options = make_options(flags, timing, settings)
    problem = registry.find_problem(flags.problem, settings)
    chosen = choose_solutions(problem, flags.solutions or [], options.device, settings, flags.entry)
    judged, summary = _follow(problem, chosen, options, output)
    if summary.csv_path is not None and summary.cases and Path(summary.csv_path).is_file():
        details.write(Path(summary.csv_path), details_of(summary))
    code = exit_code(summary, strict=flags.strict)
    output.show(
        text=lambda: terminal.render_run(summary, verbosity=output.verbosity, width=output.width),
        json=lambda: jsonout.render_run(summary, judged, exit_code=int(code), command=name),
        csv=lambda: csvout.render_rows(row for case in summary.cases for row in case.rows),
        md=lambda: markdown.render_run(summary),
    )
    if summary.error is not None and not output.wants_json:
        output.error(summary.error)
    return code


def make_options(flags: VerifyFlags, timing: RunFlags | None, settings: Settings) -> RunOptions:
    """Combine flags, settings and defaults, in this order. Flags with the name of an option are copied."""
    from kbench.run.plan import options_from

    told = {field.name for field in fields(VerifyFlags)} & {field.name for field in fields(RunOptions)}
    limits = {
        "import_s": flags.import_timeout,
        "build_s": flags.build_timeout,
        "call_s": flags.call_timeout,
        "total_s": flags.timeout,
    }
    given: dict[str, Any] = {
        **{name: getattr(flags, name) for name in told},
        "cases": tuple(flags.case or ()),
        "overrides": parse_overrides(flags.set_ or []),
        "verify_only": timing is None,
        "limits": replace(settings.run.limits, **{name: value for name, value in limits.items() if value is not None}),
        "accept": require_codes((*settings.accept, *(flags.accept or ()))),
        "results_dir": flags.results,
        "save": not flags.no_save,
    }
    return options_from(settings, **given, **(_timing(timing, settings) if timing is not None else {}))


def _timing(flags: RunFlags, settings: Settings) -> dict[str, Any]:
    """Return the options that the timing flags set; None for flags that are not given."""
    _require_one_count(flags)
    given = settings.run
    most = 1 if flags.quick else flags.max_processes or given.max_processes
    least = 1 if flags.quick else flags.processes or given.processes
    if flags.max_processes is not None:
        least = min(least, most)
    return {
        "processes": least,
        "max_processes": max(least, most),
        "precision": flags.precision,
        "budget_s": flags.budget,
        "mode": flags.mode.value if flags.mode is not None else None,
        "lock_clocks_mhz": flags.lock_clocks,
        "crosscheck": flags.crosscheck.value if flags.crosscheck is not None else None,
    }


def _require_one_count(timing: RunFlags) -> None:
    """Raise UsageError where flags ask for different numbers of processes."""
    least, most = timing.processes, timing.max_processes
    if timing.quick and (least or most):
        named = "--processes" if least else "--max-processes"
        raise UsageError(f"`--quick` runs one process and contradicts `{named}`", "leave out one of them")
    if least is not None and most is not None and least > most:
        raise UsageError(f"`--processes {least}` is more than `--max-processes {most}`", "leave out one of them")


def _follow(
    problem: Entry, chosen: Sequence[Entry], options: RunOptions, output: Output
) -> "tuple[tuple[Judged, ...], RunSummary]":
    """Show events as they come and return verdicts and summary, also of a run that breaks off."""
    from kbench.cli.progress import progress_for
    from kbench.report.summary import RunSummary, summarise
    from kbench.run import session

    planned: Planned | None = None
    saved: Saved | None = None
    judged: list[Judged] = []
    error: KbenchError | None = None
    interrupted = False
    reference_s: dict[tuple[str, str], float] = {}
    began, started = time.time() - CLOCK_STEP_S, time.monotonic()
    try:
        stream = cast("Generator[Event]", session.run(problem, chosen, options))
        with progress_for(output) as progress, closing(stream) as events:
            for event in events:
                progress.show(event)
                planned = event if isinstance(event, Planned) else planned
                saved = event if isinstance(event, Saved) else saved
                judged += [event] if isinstance(event, Judged) else []
                if isinstance(event, StageFinished) and event.stage in OF_THE_REFERENCE:
                    key = event.case, event.stage
                    reference_s[key] = reference_s.get(key, 0.0) + event.elapsed_s
    except KbenchError as caught:
        error = caught
    except KeyboardInterrupt:
        interrupted = True
    if error is not None and not judged:
        raise error
    return tuple(judged), RunSummary(
        problem=problem.name,
        planned=planned,
        cases=tuple(summarise(one) for one in judged),
        environment=saved.environment if saved else None,
        csv_path=saved.csv_path if saved else _written(options, began),
        reference_s=reference_s,
        elapsed_s=time.monotonic() - started,
        peaks=saved.peaks if saved else None,
        command=shlex.join(["kbench", *sys.argv[1:]]),
        error=error,
        interrupted=interrupted,
    )


def _written(options: RunOptions, since: float) -> str | None:
    """Find the results file of a run that broke off before it named it."""
    paths = run_files(options.results_dir) if options.save else []
    fresh = {path.stat().st_mtime: path for path in paths if path.stat().st_mtime >= since}
    return str(fresh[max(fresh)]) if fresh else None


def exit_code(run: "RunSummary", *, strict: bool) -> ExitCode:
    """Map a run to the exit code of the command; an error of kbench itself outranks a verdict."""
    if run.interrupted:
        return ExitCode.INTERRUPTED
    if run.error is not None:
        return run.error.exit_code
    code = code_of_statuses({case.status for case in run.cases})
    if code is ExitCode.OK and strict and any(INCONCLUSIVE_FLAGS & set(case.flags) for case in run.cases):
        return ExitCode.INCONCLUSIVE
    return code


def code_of_statuses(statuses: Iterable[str]) -> ExitCode:
    """Map the statuses of all cases to an exit code; a fault of kbench outranks a failed case."""
    found = set(statuses)
    if Status.HARNESS_ERROR in found:
        return ExitCode.INTERNAL
    if found - {Status.PASSED, Status.SKIPPED, Status.REFERENCE_FAILED, Status.NOT_VERIFIED}:
        return ExitCode.NEGATIVE
    if Status.REFERENCE_FAILED in found:
        return ExitCode.USAGE
    if Status.NOT_VERIFIED in found:
        return ExitCode.INCONCLUSIVE
    return ExitCode.OK if Status.PASSED in found else ExitCode.NOTHING_SELECTED
