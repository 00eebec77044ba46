"""`kbench run` and `kbench verify`: verdicts and times of solutions."""

import os
import shlex
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kbench.catalog import registry
from kbench.catalog.constant_text import grid_cases, parse_grid, parse_overrides
from kbench.catalog.registry import Entry
from kbench.cli import completion, shared_flags
from kbench.cli.command import show_all
from kbench.cli.options import OutputFlags, argument, command, option, switch
from kbench.cli.output import INTERRUPTED, Ending, Output
from kbench.cli.resume import arguments_of, started_with
from kbench.core.errors import ExitCode, KbenchError, PluginError, UsageError, did_you_mean
from kbench.core.events import REFERENCE_STAGES, Judged, Planned, RunOptions, Saved, StageFinished
from kbench.core.levels import Level, require_codes
from kbench.core.model import Status
from kbench.core.timed import forward_of
from kbench.storage import journal_file
from kbench.storage.settings import Settings

if TYPE_CHECKING:
    from kbench.engine.journal import Record
    from kbench.report.summary import RunSummary

INCONCLUSIVE_FLAGS = frozenset({"unstable", "imprecise", "resolution_limited", "throttled", "interference"})
"""Flags of a row that `--strict` does not let pass."""


class VerifyFlags(OutputFlags):
    """Flags of `kbench verify`."""

    problem: str = shared_flags.problem(default="")
    solutions: list[str] | None = argument(
        "SOLUTION",
        "Solutions: names or paths (default: all that run on the device)",
        default=None,
        autocompletion=completion.solutions,
    )
    case: list[str] | None = shared_flags.cases(autocompletion=completion.cases)
    set_: list[str] | None = shared_flags.set_()
    grid: list[str] | None = shared_flags.grid()
    device: str | None = shared_flags.device()
    import_timeout: float | None = shared_flags.seconds(
        "--import-timeout SECONDS", "Timeout for importing solution or problem (default 60s)"
    )
    build_timeout: float | None = shared_flags.seconds("--build-timeout SECONDS", "Build timeout (default 300s)")
    call_timeout: float | None = shared_flags.seconds(
        "--call-timeout SECONDS", "Timeout of one call (default 10s or 50 x the reference)"
    )
    timeout: float | None = shared_flags.seconds(
        "--timeout SECONDS", "Timeout of each solution in total (default none; in a sweep 600s a process)"
    )
    trusted: bool = shared_flags.trusted()
    level: Level | None = option("--level", "Level that a solution must hold (default module)", case_sensitive=False)
    accept: list[str] | None = option(
        "--accept CODE", "Accept a solution that lacks this property; repeatable", autocompletion=completion.properties
    )
    backward: bool = switch("--backward", "Judge and time forward + backward as well, as the case `CASE+backward`")
    batch_invariant: bool = switch("--batch-invariant", "Require that a row has the same bits in every batch")
    require_custom: bool = switch("--require-custom", "Fail a solution without a kernel of its own")
    sanitize: bool | None = option(
        "--sanitize/--no-sanitize", "Run memcheck first (default: only after an illegal access)"
    )
    allow_tf32: bool = shared_flags.allow_tf32()
    eval_mode: bool = switch("--eval", "Run both sides in eval mode")
    name: str | None = shared_flags.name("Name of the saved run")
    no_save: bool = switch("--no-save", "Write no files")
    resume: str | None = shared_flags.resume("Continue what was broken off, by name or `@latest`; verdicts are kept")
    results: Path | None = shared_flags.results()
    help_all: bool = switch("--help-all", "Show all options and exit", is_eager=True, callback=show_all)
    strict: bool = shared_flags.strict()


class TimingFlags(VerifyFlags):
    """Flags of commands that time, besides those of `kbench verify`."""

    processes: int | None = shared_flags.processes("Least number of processes (default 3)", min=1)
    max_processes: int | None = option("--max-processes N", "Largest number of processes (default 10)", min=1)
    precision: float | None = shared_flags.share(
        "--precision SHARE", "Stop when the 95 % interval is ± this (default 0.3%)"
    )
    budget: float | None = shared_flags.seconds(
        "--budget SECONDS", "Time to measure each solution and case (default 20s)"
    )
    quick: bool = shared_flags.quick()
    mode: Literal["cold", "warm", "graph"] | None = option(
        "--mode", "Cache state before each timed call (default cold)"
    )


class RunFlags(TimingFlags):
    """Flags of `kbench run`, besides those of commands that time."""

    baseline: str | None = shared_flags.baseline(
        "Solution that the table of cases and solutions compares with (default the reference)"
    )


@command(RunFlags)
def run(flags: RunFlags) -> int:
    """Verify, then time, one or more solutions of a problem."""
    return _judge("run", flags)


@command(VerifyFlags)
def verify(flags: VerifyFlags) -> int:
    """Verify only."""
    return _judge("verify", flags)


def _judge(name: str, flags: VerifyFlags) -> int:
    from kbench.engine.options import choose_solutions

    output, settings = flags.output(), flags.settings()
    flags, record = _resumed(name, flags, settings)
    timing = flags if isinstance(flags, RunFlags) else None
    options = make_options(flags, timing, settings)
    problem = _problem(name, flags, settings)
    chosen = choose_solutions(problem, flags.solutions or [], options.device, settings)
    baseline = (timing.baseline if timing is not None else None) or ""
    names = [entry.name for entry in registry.with_unique_names(chosen)]
    if baseline and baseline not in names:
        hint = did_you_mean(baseline, names, listing=f"solutions of this run: {', '.join(names)}")
        raise UsageError(f"`--baseline {baseline}` is no solution of this run", hint)
    kept = {"arguments": arguments_of(flags), "resumed": record}
    summary = _follow(problem, chosen, options, output, kept)

    from kbench.report import run as report
    from kbench.report.saved_run import details_of
    from kbench.storage import details

    left = len(problem.parsed.cases) - len({forward_of(one.case) for one in summary.cases}) if not options.cases else 0
    summary = replace(summary, elapsed_s=seconds_since_process_start(), baseline=baseline, unjudged=max(left, 0))
    if summary.csv_path is not None and summary.cases and Path(summary.csv_path).is_file():
        details.write(Path(summary.csv_path), details_of(summary))
    code = exit_code(summary, strict=flags.strict)
    output.rendered(report, summary, exit_code=code, command=name, samples=output.verbosity > 0)
    if summary.error is not None and not output.wants_json:
        output.error(summary.error)
    if summary.csv_path is not None and Path(summary.csv_path).with_suffix(journal_file.SUFFIX).exists():
        output.note(f"not all is judged: `kbench {name} --resume {Path(summary.csv_path).stem}` goes on")
    return code


def _resumed(command: str, flags: VerifyFlags, settings: Settings) -> "tuple[VerifyFlags, Record | None]":
    """Return the flags of a command that was broken off, with what its journal holds, or the present flags."""
    if flags.resume is None:
        if not flags.problem:
            raise UsageError("Missing argument 'PROBLEM'", "`kbench list` shows the problems")
        return flags, None
    from kbench.engine import journal

    if flags.no_save:
        raise UsageError("`--no-save` contradicts `--resume`", "leave out one of them")
    _, record = journal.find(command, flags.resume, flags.results or settings.results)
    return started_with(flags, record.header, record.header.run), record


def _problem(command: str, flags: VerifyFlags, settings: Settings) -> Entry:
    """Find the problem; where a solution is given in its place, the error says which order was meant."""
    try:
        return registry.find_problem(flags.problem, settings)
    except (PluginError, UsageError) as error:
        words = [flags.problem, *(flags.solutions or ())]
        meant = next((word for word in words[1:] if _is_problem(word, settings)), None)
        if meant is None:
            raise
        typed = shlex.join(["kbench", command, meant, *(word for word in words if word != meant)])
        raise type(error)(error.message, f"the problem comes first: `{typed}`") from None


def _is_problem(word: str, settings: Settings) -> bool:
    try:
        registry.find_problem(word, settings)
    except KbenchError:
        return False
    return True


def seconds_since_process_start() -> float:
    """Return the seconds since this process was started: what it imports is part of what a user waits for."""
    stat = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(stat[19]) / os.sysconf("SC_CLK_TCK")


def make_options(flags: VerifyFlags, timing: TimingFlags | None, settings: Settings) -> RunOptions:
    """Combine flags, settings and defaults, in this order; flags with the name of an option are copied."""
    from kbench.engine.options import options_from

    same = {field.name for field in fields(VerifyFlags)} & {field.name for field in fields(RunOptions)}
    overrides = parse_overrides(flags.set_ or ())
    grid = parse_grid(flags.grid or (), overrides)
    given: dict[str, Any] = {
        **{name: getattr(flags, name) for name in same},
        "cases": grid_cases(flags.case or (), grid) if grid else tuple(flags.case or ()),
        "overrides": overrides,
        "verify_only": timing is None,
        "import_timeout_s": flags.import_timeout,
        "build_timeout_s": flags.build_timeout,
        "call_timeout_s": flags.call_timeout,
        "timeout_s": flags.timeout,
        "accept": require_codes((*settings.accept, *(flags.accept or ()))),
        "results_dir": flags.results,
        "save": not flags.no_save,
    }
    return options_from(settings, **given, **(_timing(timing) if timing is not None else {}))


def _timing(flags: TimingFlags) -> dict[str, Any]:
    least, most = flags.processes, flags.max_processes
    if flags.quick and (least or most):
        named = "--processes" if least else "--max-processes"
        raise UsageError(f"`--quick` runs one process and contradicts `{named}`", "leave out one of them")
    if least is not None and most is not None and least > most:
        raise UsageError(f"`--processes {least}` is more than `--max-processes {most}`", "leave out one of them")
    return {
        "processes": 1 if flags.quick else least,
        "max_processes": 1 if flags.quick else most,
        "precision": flags.precision,
        "budget_s": flags.budget,
        "mode": flags.mode,
    }


def _follow(
    problem: Entry, chosen: Sequence[Entry], options: RunOptions, output: Output, kept: Mapping[str, Any]
) -> "RunSummary":
    from kbench.cli.progress import progress_for
    from kbench.engine import run as session
    from kbench.report import run as _report  # noqa: F401 - while torch is imported beside it, not after the verdict
    from kbench.report.summary import RunSummary, summarise

    saved: Saved | None = None
    asked: tuple[str, ...] = ()
    judged: list[Judged] = []
    reference_s: dict[str, dict[str, float]] = {}
    with (
        Ending() as ending,
        progress_for(output) as show,
        closing(session.run(problem, chosen, options, **kept)) as events,
    ):
        for event in events:
            show(event)
            asked = event.solutions if isinstance(event, Planned) else asked
            saved = event if isinstance(event, Saved) else saved
            judged += [event] if isinstance(event, Judged) else []
            if isinstance(event, StageFinished) and event.stage in REFERENCE_STAGES:
                stages = reference_s.setdefault(event.case, {})
                stages[event.stage] = stages.get(event.stage, 0.0) + event.elapsed_s
    if ending.error is not None and ending.error is not INTERRUPTED and not judged:
        raise ending.error
    path = saved.csv_path if saved is not None else None  # a file without rows was removed
    cases = list(dict.fromkeys(one.case for one in judged))
    judged.sort(key=lambda one: (cases.index(one.case), asked.index(one.solution)))  # those that failed ended first
    return RunSummary(
        problem=problem.name,
        cases=tuple(summarise(one) for one in judged),
        environment=saved.environment if saved else None,
        csv_path=path if saved is not None and (saved.environment or Path(path or "").is_file()) else None,
        reference_s=reference_s,
        command=shlex.join(["kbench", *sys.argv[1:]]),
        error=ending.error,
    )


def exit_code(run: "RunSummary", *, strict: bool) -> ExitCode:
    """Map a run to the exit code of the command; an error of kbench itself outranks a verdict."""
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
