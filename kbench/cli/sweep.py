"""`kbench sweep`: many problems by many solutions."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kbench.cli import completion, shared_flags
from kbench.cli.options import argument, command, option, switch
from kbench.cli.output import INTERRUPTED, Ending
from kbench.cli.resume import OPTIONS_OF_RESUMING, arguments_of, started_with
from kbench.cli.run import TimingFlags, code_of_statuses, make_options
from kbench.core.errors import ExitCode, UsageError
from kbench.core.model import Status
from kbench.engine.selection import PairBy, SolutionPair, is_manifest, keep_lines, pairs, read_manifest
from kbench.storage import journal_file
from kbench.storage.results import default_stem, safe_stem
from kbench.storage.settings import Settings

if TYPE_CHECKING:  # numpy, which completion does not need
    from kbench.devices.selection import DeviceChoice
    from kbench.engine.crew import SweepOptions
    from kbench.engine.journal import Header, Record
    from kbench.engine.sweep import MakeCrew


class SweepFlags(TimingFlags):
    """Flags of `kbench sweep`, besides those of commands that time."""

    problem: str = argument(
        "PROBLEMS",
        "Name, file, folder, glob, or manifest (.csv, .jsonl, - for lines on stdin)",
        default="",
        autocompletion=completion.problems,
    )
    solutions: list[str] | None = argument(
        "SOLUTIONS", "Names, files, folders or globs (default: those found by name)", default=None
    )
    self_: bool = switch("--self", "Judge each problem against itself (the solution `eager`); all names are problems")
    pair: PairBy | None = option("--pair", "How to match solutions to problems (default: name for folders, else all)")
    until: Literal["verify", "time"] | None = option("--until", "The last step to take (default time)")
    device: str | None = shared_flags.devices()
    lanes: int | None = shared_flags.lanes()
    executor: Literal["local", "ray"] = option(
        "--executor", "Judge on this host, or on all nodes of a Ray cluster", default="local"
    )
    address: str | None = option("--address HOST:PORT", "With --executor ray: the cluster (default: this host's)")
    jobs: int | None = shared_flags.jobs("Parallel builds (default: one per processor)")
    retry: list[str] | None = option(
        "--retry STATUS", "With --resume: judge again what has this status, `failed` for all but passed; repeatable"
    )


FAILED = "failed"
"""Word of `--retry` for every status but `passed`."""
RESUMING = OPTIONS_OF_RESUMING - {"strict"} | frozenset({"retry", "lanes", "jobs", "device", "executor", "address"})
"""Flags that a resuming command sets itself; the others come from the command that started the sweep."""


@command(SweepFlags)
def main(flags: SweepFlags) -> int:
    """Judge many solutions of many problems; resumable."""
    from kbench.cli.progress import progress_for
    from kbench.devices.selection import choose_devices
    from kbench.engine.crew import Crew
    from kbench.engine.ladder import unfinished
    from kbench.engine.plan import make_tasks
    from kbench.engine.sweep import Sweep
    from kbench.report import swept

    output, settings = flags.output(), flags.settings()
    with ExitStack() as stack:
        results = flags.results or settings.results
        if flags.no_save:
            if flags.resume is not None:
                raise UsageError("`--no-save` contradicts `--resume`", "leave out one of them")
            from kbench.sandbox.work_folder import work_folder

            results = stack.enter_context(work_folder())
        flags, header, journal, record = _begin(flags, results)
        asked = flags.device or settings.run.device
        with ExitStack() as executing:
            if flags.executor == "ray":
                devices, make = _cluster(executing, flags, asked)
            elif flags.address is not None:
                raise UsageError("`--address` names a Ray cluster", "add `--executor ray`")
            else:
                devices, make = choose_devices(asked), Crew
            options = _options(flags, settings, results, devices)
            chosen, notes = _pairs(flags, header.run, journal, settings)
            tasks, more = make_tasks(chosen, options.run, devices[0], settings)
            kept = record.results if record is not None else {}
            left, known = unfinished(tasks, kept, _retried(flags.retry or ()))
            sweep = Sweep(tasks=tasks, left=left, known=known, header=header, journal=journal, resumed=record)
            with Ending() as ending, progress_for(output) as show, closing(sweep.judge(options, make)) as events:
                for note in (*notes, *more):
                    output.note(f"note: {note}")
                for event in events:
                    show(event)
        summary, verdicts = sweep.summary(), sweep.verdicts
        if ending.error is not None and ending.error is not INTERRUPTED and not verdicts:
            raise ending.error
        if ending.error is not None:
            code = ending.error.exit_code
        else:
            gone = summary.reason.startswith("no device is left")
            code = ExitCode.ENVIRONMENT if gone else code_of_statuses(summary.statuses)
        if flags.no_save:
            summary = replace(summary, csv_path=None)
        output.rendered(swept, summary, verdicts, exit_code=int(code), hint=ending.error.hint if ending.error else None)
        if ending.error is not None and not output.wants_json:
            output.error(ending.error)
        return code


def _cluster(stack: ExitStack, flags: SweepFlags, asked: str) -> "tuple[Sequence[DeviceChoice], MakeCrew]":
    from kbench.cluster.executor import Cluster, connected
    from kbench.devices.selection import choose_kind

    posts = stack.enter_context(connected(flags.address, choose_kind(asked)))
    return [post.member.device for post in posts], lambda options, scratch, write: Cluster(
        options, scratch, write, posts
    )


def _begin(flags: SweepFlags, results: Path) -> "tuple[SweepFlags, Header, Path, Record | None]":
    """Begin a sweep, or resume one: its flags, its header, its journal, and what is in that."""
    from kbench.engine import journal
    from kbench.engine.journal import Header

    if flags.resume is None:
        if flags.retry:
            raise UsageError("`--retry` needs an earlier sweep", "name it: `--resume RUN`")
        if not flags.problem:
            raise UsageError("no problem is named", "name files, folders or globs: `kbench sweep FOLDER --self`")
        run = safe_stem(flags.name) if flags.name else default_stem("sweep", ())
        path = results / f"{run}{journal_file.SUFFIX}"
        if path.with_name(f"{run}.csv").exists() and not path.exists():
            raise UsageError(f"a run named `{run}` exists already", "choose another `--name`")
        if flags.problem == "-":
            flags = replace(flags, problem=keep_lines(sys.stdin.read(), results / f"{run}.sources"))
        arguments = arguments_of(flags, RESUMING)
        header = Header(run=run, started_utc=datetime.now(UTC).isoformat(timespec="seconds"), arguments=arguments)
        return flags, header, path, None
    path, record = journal.find("sweep", flags.resume, results)
    flags = started_with(flags, record.header, record.header.run, RESUMING)
    _retried(flags.retry or ())
    return flags, record.header, path, record


def _retried(names: Sequence[str]) -> set[Status]:
    """Return the statuses to judge again. Raises UsageError for an unknown one."""
    unknown = [name for name in names if name not in {FAILED, *Status}]
    if unknown:
        raise UsageError(f"`--retry {unknown[0]}`: no such status", f"one of {', '.join((FAILED, *Status))}")
    failed = set(Status) - {Status.PASSED} if FAILED in names else set()
    return failed | {Status(name) for name in names if name != FAILED}


def _options(flags: SweepFlags, settings: Settings, results: Path, devices: "Sequence[DeviceChoice]") -> "SweepOptions":
    from kbench.engine.builds import default_jobs
    from kbench.engine.crew import SweepOptions, default_lanes
    from kbench.engine.options import fit_to
    from kbench.engine.run import sandbox_rung
    from kbench.host import sanitizer

    timed = flags.until != "verify"
    kind = devices[0].kind
    run = fit_to(make_options(flags, flags if timed else None, settings), devices[0])
    run = replace(run, results_dir=results, name=None, device=kind, save=True)
    local = flags.executor == "local"  # a supervisor looks at its own host
    if local:
        sanitizer.require(run, devices[0])
    return SweepOptions(
        run=run,
        devices=tuple(devices),
        rung=sandbox_rung(run, kind) if local else 0,
        lanes=flags.lanes or default_lanes(kind, timed=timed),
        jobs=flags.jobs or default_jobs(),
    )


def _pairs(flags: SweepFlags, run: str, journal: Path, settings: Settings) -> tuple[list[SolutionPair], list[str]]:
    if is_manifest(flags.problem):
        if flags.solutions or flags.self_:
            raise UsageError("a manifest names its own solutions", "leave out the others")
        path = Path(flags.problem)
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}", "check the path") from None
        except UnicodeDecodeError:
            raise UsageError(f"{path} is not UTF-8", "a manifest is a CSV or JSON lines, in UTF-8") from None
        sources = journal.with_name(f"{run}.sources")
        folder = Path.cwd() if path.parent.absolute() == sources.absolute() else path.parent.absolute()
        return read_manifest(text, path.name, folder, sources), []
    if flags.self_:  # a shell makes several arguments of a glob, and all are problems
        return pairs([flags.problem, *(flags.solutions or [])], ["eager"], flags.pair, settings)
    return pairs([flags.problem], list(flags.solutions or []), flags.pair, settings)
