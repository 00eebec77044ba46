"""The plan of a run: its options, and its solutions from the names that a user gives."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from kbench.catalog import registry
from kbench.catalog.registry import Entry
from kbench.core.budget import DEFAULT_S
from kbench.core.errors import UsageError
from kbench.core.events import MeasuringOptions, RunOptions
from kbench.core.levels import Level, require_codes
from kbench.core.timed import FORWARD, timed_of
from kbench.devices import selection
from kbench.devices.backend import backend
from kbench.devices.selection import DeviceChoice
from kbench.storage.settings import Settings


def options_from(settings: Settings, **given: Any) -> RunOptions:
    """Combine given options, settings and defaults, in this order; None is not given.

    The least or the largest number of processes moves the other where it is given alone.
    """
    least, most = given.get("processes"), given.get("max_processes")
    if isinstance(least, int) and most is None:
        given["max_processes"] = max(least, settings.run.max_processes)
    if isinstance(most, int) and least is None:
        given["processes"] = min(most, settings.run.processes)
    known: dict[str, Any] = {field.name: getattr(settings.run, field.name) for field in fields(MeasuringOptions)}
    known |= {
        "level": Level(settings.level),
        "accept": require_codes(settings.accept),
        "results_dir": settings.results,
    }
    return RunOptions(**{**known, **{name: value for name, value in given.items() if value is not None}})


def fit_to(options: RunOptions, device: DeviceChoice) -> RunOptions:
    """Return the options for this device, with its budget. Raises UsageError for an option that it does not support."""
    if options.mode == "graph" and (options.backward or any(timed_of(case) != FORWARD for case in options.cases)):
        raise UsageError("`--mode graph` records forward passes only", "leave out `--mode graph`, or `--backward`")
    if options.mode == "graph" and not backend(device.kind).queues_calls:
        raise UsageError("`--mode graph` needs a GPU, and this run is on a CPU", "leave it out")
    return replace(options, device=device.kind, budget_s=options.budget_s or DEFAULT_S)


def choose_solutions(problem: Entry, names: Sequence[str], device: str, settings: Settings) -> tuple[Entry, ...]:
    """Find the named solutions, or all files that run on the device; then `eager`, if there is no file."""
    if names:
        return tuple(registry.find_solution(problem, name, settings) for name in dict.fromkeys(names))
    known = registry.solutions(problem, settings)
    kind = selection.choose(device).kind
    files = tuple(entry for entry in known if entry.builtin is None and kind in entry.devices)
    return files or tuple(entry for entry in known if entry.builtin == "eager")
