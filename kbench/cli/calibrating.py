"""What `kbench calibrate` does with its flags."""

from collections.abc import Iterable, Iterator
from contextlib import closing

from kbench import calibrate as verb
from kbench import doctor
from kbench.calibrate import Calibrated, Calibration, Measure, Subject, SubjectMeasured, SubjectStarted
from kbench.cli.calibrate import CalibrateFlags
from kbench.cli.output import Format, Output
from kbench.core.errors import ExitCode, InternalError, MachineError
from kbench.core.events import Judged, RunOptions
from kbench.core.model import Environment, Failed, Timing
from kbench.devices import selection
from kbench.devices.selection import DeviceChoice
from kbench.plugins import registry
from kbench.report import csvout, units
from kbench.report.document import render_document
from kbench.report.table import Column, render_markdown_table, render_table
from kbench.run import session as running
from kbench.storage.settings import Settings

DEFAULT_CASES = {"cuda": ("small", "default"), "cpu": ("small",)}
"""Cases of each problem that cover the size classes without taking half an hour."""


def calibrate(flags: CalibrateFlags) -> int:
    """Calibrate, and print what was found."""
    output, settings = flags.output(), flags.settings()
    device = selection.choose(flags.device or settings.run.device)
    subjects = _subjects(flags, device.kind, settings)
    measure = reference_against_itself(flags.device or settings.run.device, settings)
    processes = flags.processes or verb.DEFAULT_PROCESSES
    events = verb.calibrate(subjects, measure, _environment(device), processes=processes)
    done = _follow(events, output)
    _print(output, done.calibration, processes)
    output.note(f"saved {done.path}")
    return ExitCode.OK


def reference_against_itself(device: str, settings: Settings) -> Measure:
    """Make the measurement that calibration asks for: `eager` as the solution, whose true ratio is 1."""

    def measure(subject: Subject, processes: int) -> Iterable[Timing]:
        problem = registry.find_problem(subject.problem, settings)
        eager = registry.find_solution(problem, "eager", settings)
        options = RunOptions(
            device=device, cases=(subject.case,), processes=processes, max_processes=processes, save=False
        )
        for event in running.run(problem, (eager,), options):
            if isinstance(event, Judged):
                if isinstance(event.outcome, Failed):
                    reason = f"{event.outcome.status.value}: {event.outcome.reason}"
                    raise MachineError(f"{subject.problem}, case {subject.case}: {reason}", "see `kbench doctor`")
                return event.outcome.timings
        raise InternalError(f"{subject.problem}, case {subject.case} was not judged")

    return measure


def _subjects(flags: CalibrateFlags, kind: str, settings: Settings) -> list[Subject]:
    if flags.problems:
        entries = [registry.find_problem(name, settings) for name in flags.problems]
    else:
        entries = [entry for entry in registry.problems(settings) if entry.origin == "kbench"]
    cases = flags.case or DEFAULT_CASES[kind]
    named = [str(entry.path) if entry.origin == "path" else entry.name for entry in entries]
    return [Subject(problem=name, case=case) for name in named for case in cases]


def _environment(device: DeviceChoice) -> Environment:
    gpu = doctor.read_gpu(device) if device.kind == "cuda" else None
    return Environment(
        device=device.kind,
        gpu_name=device.name,
        gpu_uuid=device.uuid,
        driver=gpu.driver if gpu is not None else "",
        cuda="",
        torch="",
    )


def _follow(events: Iterator[verb.Event], output: Output) -> Calibrated:
    with closing(events) as stream:  # type: ignore[type-var]  # the verb is a generator
        for event in stream:
            match event:
                case SubjectStarted(subject=subject, number=number, total=total):
                    output.note(f"{number}/{total}  {subject.problem}  {subject.case}")
                case SubjectMeasured(result=result):
                    output.note(f"     {units.duration(result.time_ns)}, spread {100 * result.between:.2g} %")
                case Calibrated():
                    return event
    raise InternalError("the calibration ended without a result")


def _print(output: Output, found: Calibration, processes: int) -> None:
    columns = [
        Column(title="class"),
        Column(title="cases", right=True),
        Column(title="within a process", right=True),
        Column(title="between processes", right=True),
        Column(title=f"detectable with {processes} processes", right=True),
    ]
    ends = dict(verb.SIZE_CLASSES)
    rows = []
    for known in found.classes:
        effect = found.detectable(min(ends[known.name], 1e9) * 0.99, processes)
        rows.append(
            [
                known.name,
                str(known.subjects),
                f"{100 * known.within:.2g} %",
                f"{100 * known.between:.2g} %",
                units.ABSENT if effect is None else f"{100 * effect:.2g} %",
            ]
        )
    match output.format:
        case Format.JSON:
            output.data(render_document("calibrate", status="ok", device=found.gpu_name, results=found.subjects))
        case Format.CSV:
            output.data(csvout.render_cells([column.title for column in columns], rows))
        case Format.MD:
            output.data(render_markdown_table(columns, rows))
        case Format.TEXT:
            output.data(f"{found.gpu_name}\n" + render_table(columns, rows))
