"""`kbench gate`: fail a CI job on a regression, and only on a regression."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.catalog import registry
from kbench.cli import completion, shared_flags
from kbench.cli.options import OutputFlags, argument, command, option, switch
from kbench.cli.output import Output
from kbench.core.errors import UsageError
from kbench.core.model import Time
from kbench.storage import csvfile
from kbench.storage.runfiles import LATEST
from kbench.storage.saved_runs import find_run
from kbench.storage.settings import GateSettings, Settings

OTHER_FILE = "name another file"

if TYPE_CHECKING:
    from kbench.gate.rule import GateReport


class _GateFlags(OutputFlags):
    targets: list[str] | None = argument(
        "RUN",
        "Run (default @latest); with --against: PROBLEM [SOLUTION]...",
        default=None,
        autocompletion=completion.runs,
    )
    against: str | None = option("--against REV", "Measure this checkout and another commit side by side")
    case: list[str] | None = shared_flags.cases(text="With --against: only cases whose name matches")
    device: str | None = shared_flags.device(text="With --against: auto, cpu, cuda, cuda:INDEX")
    baseline: str | None = shared_flags.baseline("Baseline: a name or the path of a CSV (default main)")
    time: Time | None = shared_flags.time()
    slower: float | None = shared_flags.slower()
    confirm: bool = switch("--confirm", "Measure flagged cases again before they fail")
    github: bool = switch("--github", "Print GitHub annotations and write the step summary")
    junit: Path | None = option("--junit FILE", "Write JUnit XML as well")
    strict: bool = shared_flags.strict()
    results: Path | None = shared_flags.results()


@command(_GateFlags)
def main(flags: _GateFlags) -> int:
    """Fail when a run regresses against its baseline."""
    from kbench.host import nursery_process
    from kbench.report import gate as rendering  # imports numpy, which completion does not need

    output, settings = flags.output(), flags.settings()
    with nursery_process.kept():  # the second measurement begins where the first one ended
        report = (_against_baseline if flags.against is None else _against_commit)(flags, settings, output)
    _write_files(report, flags)
    output.rendered(rendering, report)
    if flags.github:  # GitHub reads commands from either stream; stdout stays one document in every format
        output.note(rendering.render_annotations(report))
    return report.exit_code


def _against_baseline(flags: _GateFlags, settings: Settings, output: Output) -> "GateReport":
    from kbench import calibrate
    from kbench.cli.progress import progress_for
    from kbench.gate import confirm, rule
    from kbench.storage import baselines
    from kbench.storage.versions import versions

    if flags.case or flags.device or len(flags.targets or ()) > 1:
        raise UsageError(
            "a gate on a saved run takes the run alone", "`--against REV` measures: PROBLEM [SOLUTION]... --case GLOB"
        )
    folder = flags.results or settings.results
    run = baselines.require_unedited(find_run((flags.targets or [LATEST])[0], folder))
    root, first = folder / "baselines", run.rows[0]
    name = flags.baseline or settings.gate.baseline
    policy = make_policy(settings.gate, flags)
    baseline = baselines.load_baseline(run, name, root)
    with progress_for(output) as show:
        report = rule.gate(
            run,
            baseline,
            policy,
            confirm=confirm.by_running(run, settings, show, Time(policy.time)) if flags.confirm else None,
            versions=versions(baseline.path),
            calibration=calibrate.load(first.gpu_uuid),
        )
    return replace(report, baseline=name)  # its file is named after the problem


def _against_commit(flags: _GateFlags, settings: Settings, output: Output) -> "GateReport":
    from kbench.cli.progress import progress_for
    from kbench.engine.options import choose_solutions, options_from
    from kbench.gate import against, rule

    if not flags.targets:
        raise UsageError("`--against` needs a problem to measure", "`kbench gate PROBLEM [SOLUTION]... --against REV`")
    if flags.baseline or flags.confirm:
        raise UsageError("`--against` needs no baseline, and always confirms", "leave out `--baseline` and `--confirm`")
    problem = registry.find_problem(flags.targets[0], settings)
    options = options_from(
        settings,
        device=flags.device,
        cases=tuple(flags.case or ()),
        processes=max(rule.PROCESSES, settings.run.processes),
        max_processes=max(rule.PROCESSES, settings.run.max_processes),
    )
    solutions = choose_solutions(problem, flags.targets[1:], options.device, settings)
    with progress_for(output) as show:
        policy = make_policy(settings.gate, flags)
        return against.against(problem, solutions, str(flags.against), options, policy, settings, show)


def make_policy(settings: GateSettings, flags: _GateFlags) -> GateSettings:
    """Let a flag win over the settings."""
    unclear = "fail" if flags.strict else None
    return replace(settings, **shared_flags.given(slower=flags.slower, unclear=unclear, time=flags.time))


def _write_files(report: "GateReport", flags: _GateFlags) -> None:
    from kbench.report.gate import render_junit, render_step_summary

    if flags.junit is not None:
        csvfile.make_folder(flags.junit, OTHER_FILE)
        csvfile.replace_file(flags.junit, render_junit(report) + "\n", OTHER_FILE)
    step_summary = os.environ.get("GITHUB_STEP_SUMMARY") if flags.github else None
    if step_summary:
        with Path(step_summary).open("a", encoding="utf-8") as file:
            file.write(render_step_summary(report) + "\n")
