"""What `kbench run` and `kbench verify` do with their flags."""

import time
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import cast

from kbench.cli.options import parse_overrides
from kbench.cli.output import Format, Output
from kbench.cli.progress import progress_for
from kbench.cli.run import RunFlags, VerifyFlags
from kbench.core.errors import ExitCode, KbenchError, NothingSelectedError, UsageError
from kbench.core.events import OF_THE_REFERENCE, Event, Judged, Planned, RunOptions, Saved, StageFinished, TimeLimits
from kbench.core.levels import Level, require_codes
from kbench.core.model import Status
from kbench.devices import selection
from kbench.plugins import registry
from kbench.plugins.registry import Entry
from kbench.report import csvout, jsonout, markdown, terminal
from kbench.report.summary import RunSummary, summarise
from kbench.run import session as verb
from kbench.storage.runfiles import run_files
from kbench.storage.settings import Settings

CLOCK_STEP_S = 0.02
"""A file's time may lag behind the clock by a tick of the kernel."""
INCONCLUSIVE_FLAGS = frozenset({"unstable", "imprecise", "resolution_limited", "throttled", "interference"})
"""Flags of a row that `--strict` does not let pass."""


def run(name: str, flags: VerifyFlags, timing: RunFlags | None) -> int:
    """Judge as the flags say, and report; nothing is timed without `timing`."""
    output, settings = flags.output(), flags.settings()
    options = make_options(flags, timing, settings)
    problem = registry.find_problem(flags.problem, settings)
    chosen = choose_solutions(problem, flags.solutions or [], options.device, settings, flags.entry)
    judged, summary = _follow(problem, chosen, options, output)
    code = exit_code(summary, strict=flags.strict)
    _print(name, output, summary, judged, code)
    return code


def make_options(flags: VerifyFlags, timing: RunFlags | None, settings: Settings) -> RunOptions:
    """Let a flag win over the settings, and these over the defaults."""
    given = settings.run
    processes = given.processes if timing is None or timing.processes is None else timing.processes
    at_most = given.max_processes if timing is None or timing.max_processes is None else timing.max_processes
    if timing is not None:
        _require_one_count(timing)
        if timing.quick:
            processes = at_most = 1
        elif timing.max_processes is not None:
            processes = min(processes, at_most)
    mode = timing.mode.value if timing is not None and timing.mode is not None else given.mode
    precision = timing.precision if timing is not None else None
    return RunOptions(
        device=flags.device or given.device,
        cases=tuple(flags.case or ()),
        overrides=parse_overrides(flags.set_ or []),
        verify_only=timing is None,
        processes=processes,
        max_processes=max(processes, at_most),
        pairs=given.pairs,
        precision=given.precision if precision is None else precision,
        budget_s=(timing.budget if timing is not None else None) or given.budget_s,
        mode=mode,
        lock_clocks_mhz=timing.lock_clocks if timing is not None else None,
        limits=TimeLimits(
            import_s=flags.import_timeout or given.import_timeout_s,
            build_s=flags.build_timeout or given.build_timeout_s,
            call_s=flags.call_timeout or given.call_timeout_s,
            total_s=flags.timeout or given.timeout_s,
        ),
        isolation=given.isolation if flags.isolation is None else flags.isolation,
        trusted=flags.trusted,
        level=flags.level or Level(settings.level),
        accept=require_codes((*settings.accept, *(flags.accept or ()))),
        backward=flags.backward,
        require_custom=flags.require_custom,
        sanitize=flags.sanitize,
        allow_tf32=flags.allow_tf32,
        eval_mode=flags.eval_mode,
        crosscheck=timing.crosscheck.value if timing is not None and timing.crosscheck is not None else None,
        results_dir=flags.results or settings.results,
        save=not flags.no_save,
        name=flags.name,
    )


def _require_one_count(timing: RunFlags) -> None:
    """Raise UsageError where flags ask for different numbers of processes."""
    least, most = timing.processes, timing.max_processes
    if timing.quick and (least or most):
        named = "--processes" if least else "--max-processes"
        raise UsageError(f"`--quick` runs one process, `{named}` asks for others", "leave out one of them")
    if least is not None and most is not None and least > most:
        raise UsageError(f"`--processes {least}` is more than `--max-processes {most}`", "leave out one of them")


def choose_solutions(
    problem: Entry, names: Sequence[str], device: str, settings: Settings, entry: str | None = None
) -> tuple[Entry, ...]:
    """Find the named solutions, or all files that run on the device; then `eager`, if there is no file."""
    if entry is not None and not entry.isidentifier():
        raise UsageError(f"`--entry {entry}` is not a name", "write for example `--entry Model`")
    if names:
        return tuple(registry.find_solution(problem, name, settings, entry=entry) for name in dict.fromkeys(names))
    if entry is not None:
        raise UsageError("`--entry` needs a solution to look into", "name its file behind the problem")
    known = registry.solutions(problem, settings)
    kind = selection.choose(device).kind
    files = tuple(entry for entry in known if entry.builtin is None and kind in entry.devices)
    return files or tuple(entry for entry in known if entry.builtin == "eager")


def _follow(
    problem: Entry, chosen: Sequence[Entry], options: RunOptions, output: Output
) -> tuple[tuple[Judged, ...], RunSummary]:
    """Show events as they come and keep what counts, also of a run that breaks off."""
    planned: Planned | None = None
    saved: Saved | None = None
    judged: list[Judged] = []
    error: KbenchError | None = None
    interrupted = False
    reference_s: dict[tuple[str, str], float] = {}
    began, started = time.time() - CLOCK_STEP_S, time.monotonic()
    try:
        stream = cast("Generator[Event]", verb.run(problem, chosen, options))
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
        error=error,
        interrupted=interrupted,
    )


def _written(options: RunOptions, since: float) -> str | None:
    """Find the rows of what had finished when a run broke off, before it could name its file."""
    paths = run_files(options.results_dir) if options.save else []
    fresh = {path.stat().st_mtime: path for path in paths if path.stat().st_mtime >= since}
    return str(fresh[max(fresh)]) if fresh else None


def exit_code(run: RunSummary, *, strict: bool) -> ExitCode:
    """Map a run to the exit code of the command; what kbench itself got wrong outranks a verdict."""
    found = {case.status for case in run.cases}
    code = ExitCode.OK
    if run.interrupted:
        code = ExitCode.INTERRUPTED
    elif run.error is not None:
        code = run.error.exit_code
    elif Status.HARNESS_ERROR in found:
        code = ExitCode.INTERNAL
    elif found - {Status.PASSED, Status.SKIPPED, Status.REFERENCE_FAILED, Status.NOT_VERIFIED}:
        code = ExitCode.NEGATIVE
    elif Status.REFERENCE_FAILED in found:
        code = ExitCode.USAGE
    elif Status.NOT_VERIFIED in found:
        code = ExitCode.INCONCLUSIVE
    elif Status.PASSED not in found:
        code = NothingSelectedError.exit_code
    elif strict and any(INCONCLUSIVE_FLAGS & set(case.flags) for case in run.cases):
        code = ExitCode.INCONCLUSIVE
    return code


def _print(name: str, output: Output, run: RunSummary, judged: tuple[Judged, ...], code: ExitCode) -> None:
    match output.format:
        case Format.JSON:
            output.data(jsonout.render_run(run, judged, exit_code=int(code), command=name))
        case Format.CSV:
            output.data(csvout.render_rows(row for case in run.cases for row in case.rows))
        case Format.MD:
            output.data(markdown.render_run(run))
        case Format.TEXT:
            output.data(terminal.render_run(run, verbosity=output.verbosity, width=output.width))
    if run.error is not None and not output.wants_json:
        output.error(run.error)
