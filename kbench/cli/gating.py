"""What `kbench gate` does with its flags."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kbench import against, calibrate, confirm
from kbench import gate as verb
from kbench.cli.gate import GateFlags
from kbench.cli.output import Format, Output
from kbench.cli.progress import progress_for
from kbench.cli.running import choose_solutions
from kbench.cli.saved import find_run
from kbench.core.errors import ExitCode, UsageError
from kbench.core.events import RunOptions
from kbench.core.levels import Level, require_codes
from kbench.core.model import Time
from kbench.gate import GateReport, Policy
from kbench.isolation import nurseries
from kbench.plugins import registry
from kbench.report import csvout, gated, github, junit
from kbench.report.document import plain, render_document
from kbench.storage import baselines, csvfile
from kbench.storage.runfiles import LATEST
from kbench.storage.settings import GateSettings, Settings


def gate(flags: GateFlags) -> int:
    """Judge, and report in every way that was asked for."""
    output, settings = flags.output(), flags.settings()
    with nurseries.kept():  # a second look begins where the first one ended
        if flags.against is None:
            report = _against_baseline(flags, settings, output)
        else:
            report = _against_commit(flags.against, flags, settings, output)
    _write_files(report, flags)
    _print(output, report, flags)
    return report.exit_code


def _against_baseline(flags: GateFlags, settings: Settings, output: Output) -> GateReport:
    """Hold a saved run against a saved baseline."""
    if flags.case or flags.device or len(flags.targets or ()) > 1:
        raise UsageError("a saved run is gated as it is", "`--against REV` measures: PROBLEM [SOLUTION]... --case GLOB")
    folder = flags.results or settings.results
    run = baselines.require_unedited(find_run((flags.targets or [LATEST])[0], folder, settings))
    root = folder / "baselines"
    first = run.rows[0]
    name = flags.baseline or settings.gate.baseline
    policy = make_policy(settings.gate, flags)
    with progress_for(output) as progress:
        report = verb.gate(
            run,
            baselines.load_baseline(run, name, root),
            policy,
            confirm=confirm.by_running(run, settings, progress.show, policy.time) if flags.confirm else None,
            pinned=baselines.load_pinned(run, root),
            accepted=baselines.load_acceptances(first.gpu_name, root),
            calibration=calibrate.load(first.gpu_uuid),
        )
    return replace(report, baseline=name)  # its file is named after the problem


def _against_commit(revision: str, flags: GateFlags, settings: Settings, output: Output) -> GateReport:
    """Measure this checkout and another commit in one run."""
    if not flags.targets:
        raise UsageError(
            "`--against` measures, and needs to know what", "`kbench gate PROBLEM [SOLUTION]... --against REV`"
        )
    if flags.baseline or flags.confirm:
        raise UsageError("`--against` needs no baseline, and always confirms", "leave out `--baseline` and `--confirm`")
    problem = registry.find_problem(flags.targets[0], settings)
    policy = make_policy(settings.gate, flags)
    options = RunOptions(
        device=flags.device or settings.run.device,
        cases=tuple(flags.case or ()),
        processes=max(policy.processes, settings.run.processes),
        max_processes=max(policy.processes, settings.run.max_processes),
        pairs=settings.run.pairs,
        mode=settings.run.mode,
        precision=settings.run.precision,
        isolation=settings.run.isolation,
        level=Level(settings.level),
        accept=require_codes(settings.accept),
    )
    solutions = choose_solutions(problem, flags.targets[1:], options.device, settings)
    with progress_for(output) as progress:
        return against.against(problem, solutions, revision, options, policy, settings, progress.show)


def make_policy(given: GateSettings, flags: GateFlags) -> Policy:
    """Let a flag win over the settings."""
    unclear = flags.unclear.value if flags.unclear else given.unclear
    return Policy(
        slower=given.slower if flags.slower is None else flags.slower,
        overrides={glob: override.slower for glob, override in given.override.items()},
        unclear="fail" if flags.strict else unclear,
        missing=flags.missing.value if flags.missing else given.missing,
        time=flags.time or Time(given.time),
    )


def _write_files(report: GateReport, flags: GateFlags) -> None:
    if flags.junit is not None:
        _write(flags.junit, lambda path: csvfile.replace_file(path, junit.render_junit(report) + "\n"))
    step_summary = os.environ.get("GITHUB_STEP_SUMMARY") if flags.github else None
    for target in (flags.summary, Path(step_summary) if step_summary else None):
        if target is not None:
            _write(target, lambda path: _append(path, github.render_summary(report)))


def _write(path: Path, write: Callable[[Path], None]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
    except OSError as error:
        raise csvfile.write_failed(path, error) from error


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text + "\n")


def _print(output: Output, report: GateReport, flags: GateFlags) -> None:
    match output.format:
        case Format.JSON:
            output.data(_document(report))
        case Format.CSV:
            lines = [gated.cells(case, report.time) for case in report.cases]
            output.data(csvout.render_cells(list(lines[0]) if lines else [], [list(line.values()) for line in lines]))
        case Format.MD:
            output.data(gated.render_markdown(report))
        case Format.TEXT:
            output.data(gated.render_text(report, verbosity=output.verbosity, width=output.width))
    if flags.github:
        # GitHub reads commands from either stream; stdout stays one document in every format.
        output.note(github.render_annotations(report))


def _document(report: GateReport) -> str:
    status = {ExitCode.OK: "passed", ExitCode.NEGATIVE: "failed"}.get(report.exit_code, "no_verdict")
    return render_document(
        "gate",
        status="inconclusive" if report.exit_code is ExitCode.INCONCLUSIVE else status,
        reason=gated.headline(report),
        exit_code=report.exit_code,
        findings=[{"kind": "warning", "message": text} for text in gated.warnings(report)],
        run=report.run,
        baseline=report.baseline,
        confirmed=report.confirmed,
        time=report.time,
        counts={answer.value: count for answer, count in report.counts.items()},
        results=[{**gated.cells(case, report.time), "looks": plain(case.looks)} for case in report.cases],
    )
