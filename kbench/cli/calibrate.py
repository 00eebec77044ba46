"""`kbench calibrate`: how noisy this device is, which limits what the gate can resolve."""

import time
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbench.cli import completion, shared_flags
from kbench.cli.options import OutputFlags, argument, command, option
from kbench.cli.output import Output
from kbench.core.errors import ExitCode, InternalError, MachineError
from kbench.core.events import Judged, RunOptions
from kbench.core.model import Environment, Failed, Timing
from kbench.plugins import registry
from kbench.report import units
from kbench.report.document import render_document
from kbench.report.table import Table, table
from kbench.storage.settings import Settings

if TYPE_CHECKING:
    from kbench.calibrate import Calibrated, Calibration, CalibrationEvent, Measure, Subject

DEFAULT_CASES = {"cuda": ("small", "default"), "cpu": ("small",)}
"""Cases of each problem that cover the size classes without taking half an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _CalibrateFlags(OutputFlags):
    problems: list[str] | None = argument(
        "PROBLEM", "Problems: names or paths (default: all shipped)", default=None, autocompletion=completion.problems
    )
    case: list[str] | None = option("--case NAME", "Only this case; repeatable")
    device: str | None = shared_flags.device()
    processes: int | None = option("--processes N", "Processes per case (default 10)", min=2)


@command(_CalibrateFlags)
def main(flags: _CalibrateFlags) -> int:
    """Measure how noisy this device is."""
    from kbench import calibrate as verb  # imports numpy, which completion does not need
    from kbench import doctor
    from kbench.devices import selection
    from kbench.devices.backend import backend

    output, settings = flags.output(), flags.settings()
    asked = flags.device or settings.run.device
    device = selection.choose(asked)
    subjects = _subjects(flags, device.kind, settings)
    gpu = doctor.read_gpu(device) if backend(device.kind).has_own_memory else None
    driver = gpu.driver if gpu is not None else ""
    here = Environment(device=device.kind, gpu_name=device.name, gpu_uuid=device.uuid, driver=driver, cuda="", torch="")
    processes = flags.processes or verb.DEFAULT_PROCESSES
    events = verb.calibrate(subjects, reference_against_itself(asked, settings), here, processes=processes)
    done = _follow(events, len(subjects), output)
    shown = _table(done.calibration, processes)
    output.show(
        text=lambda: f"{device.name}\n{shown.text()}",
        json=lambda: render_document("calibrate", status="ok", device=device.name, results=done.calibration.subjects),
        csv=shown.csv,
        md=shown.markdown,
    )
    output.note(f"saved {done.path}")
    return ExitCode.OK


def reference_against_itself(device: str, settings: Settings) -> "Measure":
    """Make the measurement that calibration asks for: `eager` as the solution, whose true ratio is 1."""
    from kbench.engine import run as session

    def measure(subject: "Subject", processes: int) -> Iterable[Timing]:
        problem = registry.find_problem(subject.problem, settings)
        eager = registry.find_solution(problem, "eager", settings)
        options = RunOptions(
            device=device, cases=(subject.case,), processes=processes, max_processes=processes, save=False
        )
        for event in session.run(problem, (eager,), options):
            if isinstance(event, Judged):
                if isinstance(event.outcome, Failed):
                    reason = f"{event.outcome.status.value}: {event.outcome.reason}"
                    raise MachineError(f"{subject.problem}, case {subject.case}: {reason}", "see `kbench doctor`")
                return event.outcome.timings
        raise InternalError(f"{subject.problem}, case {subject.case} was not judged")

    return measure


def _subjects(flags: _CalibrateFlags, kind: str, settings: Settings) -> "list[Subject]":
    from kbench.calibrate import Subject

    if flags.problems:
        entries = [registry.find_problem(name, settings) for name in flags.problems]
    else:
        entries = [entry for entry in registry.problems(settings) if entry.origin == "kbench"]
    named = [str(entry.path) if entry.origin == "path" else entry.name for entry in entries]
    return [Subject(problem=name, case=case) for name in named for case in flags.case or DEFAULT_CASES[kind]]


def _follow(events: "Generator[CalibrationEvent]", total: int, output: Output) -> "Calibrated":
    from kbench.calibrate import AgainstItself, Calibrated, Subject

    number, began = 0, time.monotonic()
    with closing(events) as stream:
        for event in stream:
            match event:
                case Subject(problem=problem, case=case):
                    number += 1
                    left = units.time_left(number - 1, total, time.monotonic() - began)
                    output.note(f"{number}/{total}  {problem}  {case}  {left}".rstrip())
                case AgainstItself(time_ns=time_ns, between=between):
                    output.note(f"     {units.duration(time_ns)}, spread {100 * between:.2g} %")
                case Calibrated():
                    return event
    raise InternalError("the calibration ended without a result")


def _table(found: "Calibration", processes: int) -> Table:
    """Return the noise of each size class, and the change that this number of processes detects."""
    from kbench.core.stats import detectable_effect

    return table(
        [
            {
                "class": known.name,
                ">cases": str(known.subjects),
                ">within a process": f"{100 * known.within:.2g} %",
                ">between processes": f"{100 * known.between:.2g} %",
                f">detectable with {processes} processes": f"{100 * detectable_effect(known.between, processes):.2g} %",
            }
            for known in found.classes
        ]
    )
