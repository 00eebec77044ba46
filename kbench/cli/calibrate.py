"""`kbench calibrate`: how noisy this device is, which limits what the gate can resolve."""

import time
from contextlib import closing
from typing import TYPE_CHECKING

from kbench.catalog import registry
from kbench.cli import completion, shared_flags
from kbench.cli.options import OutputFlags, argument, command, option
from kbench.core.errors import ExitCode, MachineError
from kbench.core.events import Judged, RunOptions
from kbench.core.model import Failed, Timing
from kbench.report import units
from kbench.report.table import Table, table
from kbench.storage.settings import Settings

if TYPE_CHECKING:
    from kbench.calibrate import AgainstItself, Calibration

DEFAULT_CASES = {"cuda": ("small", "default"), "cpu": ("small",)}
"""Cases of each problem that cover the size classes without taking half an hour."""


class _CalibrateFlags(OutputFlags):
    problems: list[str] | None = argument(
        "PROBLEM", "Problems: names or paths (default: all shipped)", default=None, autocompletion=completion.problems
    )
    case: list[str] | None = option("--case NAME", "Only this case; repeatable")
    device: str | None = shared_flags.device()
    processes: int | None = shared_flags.processes("Processes per case (default 10)", min=2)


@command(_CalibrateFlags)
def main(flags: _CalibrateFlags) -> int:
    """Measure how noisy this device is."""
    from kbench import calibrate as verb  # imports numpy, which completion does not need
    from kbench.devices import nvml, selection
    from kbench.devices.backend import backend

    output, settings = flags.output(), flags.settings()
    asked, processes = flags.device or settings.run.device, flags.processes or verb.DEFAULT_PROCESSES
    device = selection.choose(asked)
    driver = nvml.driver_version() if backend(device.kind).has_own_memory else ""
    subjects, found, began = _subjects(flags, device.kind, settings), list["AgainstItself"](), time.monotonic()
    for done, (problem, case) in enumerate(subjects):
        left = units.time_left(done, len(subjects), time.monotonic() - began)
        output.note(f"{done + 1}/{len(subjects)}  {problem}  {case}  {left}".rstrip())
        found.append(verb.analyse(problem, case, _against_itself(problem, case, asked, processes, settings)))
        output.note(f"     {units.duration(found[-1].time_ns)}, spread {100 * found[-1].between:.2g} %")
    calibration = verb.calibration_of(device.name, device.uuid, driver, found)
    path = verb.save(calibration)
    shown = _table(calibration, processes)
    output.records(
        "calibrate", shown, calibration.subjects, lambda: f"{device.name}\n{shown.text()}", device=device.name
    )
    output.note(f"saved {path}")
    return ExitCode.OK


def _against_itself(name: str, case: str, device: str, processes: int, settings: Settings) -> tuple[Timing, ...]:
    """Time `eager` as the solution in so many processes: its true ratio is 1."""
    from kbench.engine import run as session

    problem = registry.find_problem(name, settings)
    eager = registry.find_solution(problem, "eager", settings)
    options = RunOptions(device=device, cases=(case,), processes=processes, max_processes=processes, save=False)
    with closing(session.run(problem, (eager,), options)) as events:
        outcome = next(event.outcome for event in events if isinstance(event, Judged))
    if isinstance(outcome, Failed):
        reason = f"{outcome.status.value}: {outcome.reason}"
        raise MachineError(f"{name}, case {case}: {reason}", "see `kbench doctor`")
    return outcome.timings


def _subjects(flags: _CalibrateFlags, kind: str, settings: Settings) -> list[tuple[str, str]]:
    """Return the problems and cases whose reference is timed against itself."""
    if flags.problems:
        entries = [registry.find_problem(name, settings) for name in flags.problems]
    else:
        entries = [entry for entry in registry.problems(settings) if entry.origin == "kbench"]
    named = [str(entry.path) if entry.origin == "path" else entry.name for entry in entries]
    return [(name, case) for name in named for case in flags.case or DEFAULT_CASES[kind]]


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
