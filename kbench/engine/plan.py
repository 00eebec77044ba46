"""From pairs to tasks: the first step of a sweep, which reads files and runs nothing."""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kbench.catalog import case_selection, registry
from kbench.catalog.places import as_path
from kbench.catalog.registry import Entry
from kbench.core.errors import KbenchError, UsageError
from kbench.core.events import RunOptions
from kbench.core.model import Case, Failed, Status
from kbench.devices.backend import backend
from kbench.devices.selection import DeviceChoice
from kbench.engine.selection import SolutionPair
from kbench.engine.task import Task
from kbench.engine.unit import Unit, task_key
from kbench.storage.settings import Settings


def tasks_of(
    problem: Entry, solutions: Sequence[Entry], cases: tuple[Case, ...], options: RunOptions, device: DeviceChoice
) -> list[Task]:
    """Return the tasks of a run, case by case: each solution is judged, whatever others are like."""
    found = []
    for case, solution in itertools.product(cases, solutions):
        unit = Unit(problem=problem, solution=solution, case=case, process=0, options=options)
        key = f"{task_key(unit, device)}-{solution.name}"
        found.append(Task(key=key, problem=problem, solution=solution, case=case, cases=cases, options=options))
    return found


def make_tasks(
    pairs: Sequence[SolutionPair],
    options: RunOptions,
    device: DeviceChoice,
    settings: Settings,
) -> tuple[list[Task], list[str]]:
    """Return one task for each pair and case, equal sources once, and notes on what is left out or shared.

    An unreadable problem or solution is a refused task. Raises UsageError for a name or path that does not exist, and
    for a case or constant that the only problem lacks.
    """
    problems = _problems(pairs, settings)
    cases = {name: _cases(found, options, device.kind, len(problems)) for name, found in problems.items()}
    tasks: dict[str, Task] = {}
    solutions = [_solution(*problems[pair.problem], pair, settings) for pair in pairs]
    together: dict[Path, list[Entry]] = defaultdict(list)
    for pair, (solution, _) in zip(pairs, solutions, strict=True):
        together[problems[pair.problem][0].path].append(solution)
    names = {
        (path, one.identity): one.name for path, own in together.items() for one in registry.with_unique_names(own)
    }
    for pair, (found, refused) in zip(pairs, solutions, strict=True):
        problem, _ = problems[pair.problem]
        solution = replace(found, name=names[problem.path, found.identity])
        chosen, unfit = cases[pair.problem]
        for case in chosen:
            unit = Unit(problem=problem, solution=solution, case=case, process=0, options=options)
            key = task_key(unit, device)
            if (known := tasks.get(key)) is not None:
                if solution.name not in {known.solution.name, *known.also}:
                    tasks[key] = replace(known, also=(*known.also, solution.name))
                continue
            tasks[key] = Task(
                key=key,
                problem=problem,
                solution=solution,
                case=case,
                cases=chosen,
                options=options,
                claim=pair.claim,
                tags=pair.tags,
                refused=refused or unfit,
            )
    twins = sum(len(task.also) for task in tasks.values())
    shared = f"{twins} solutions have the same source as another one and share its verdict"
    return list(tasks.values()), [shared] if twins else []


def _problems(pairs: Sequence[SolutionPair], settings: Settings) -> dict[str, tuple[Entry, Failed | None]]:
    found: dict[str, tuple[Entry, Failed | None]] = {}
    for name, pair in {pair.problem: pair for pair in reversed(pairs)}.items():
        try:
            found[name] = registry.find_problem(name, settings), None
        except KbenchError as error:
            broken = _broken(name)
            if broken is None:
                raise _located(error, pair) from None
            found[name] = broken, Failed(status=Status.REFERENCE_FAILED, reason=f"the problem fails: {error.message}")
    apart = {one.path.resolve(): one.name for one in registry.with_unique_names([entry for entry, _ in found.values()])}
    return {name: (replace(entry, name=apart[entry.path.resolve()]), failed) for name, (entry, failed) in found.items()}


def _broken(name: str) -> Entry | None:
    """Return an entry for a file with any content; None if it does not exist."""
    path = as_path(name)
    if path is None or not path.is_file():
        return None
    name = registry.name_of(path)
    return Entry(name=name, path=path.absolute(), summary="", origin="path", devices=("cuda", "cpu"))


def _cases(
    found: tuple[Entry, Failed | None], options: RunOptions, kind: str, problems: int
) -> tuple[tuple[Case, ...], Failed | None]:
    """Return the cases of a problem; if it lacks a selected one, a case with this failure."""
    problem, failed = found
    if failed is not None:
        return (Case(name="default"),), None
    try:
        return case_selection.select(problem, options, backend(kind).preferred_cases), None
    except UsageError as error:
        if problems == 1:
            raise
        return (Case(name="default"),), Failed(status=Status.SKIPPED, reason=error.message)
    except KbenchError as error:
        return (Case(name="default"),), Failed(status=Status.REFERENCE_FAILED, reason=error.message)


def _located(error: KbenchError, pair: SolutionPair) -> KbenchError:
    return UsageError(f"{pair.where}: {error.message}", error.hint or "") if pair.where else error


def _solution(
    problem: Entry, failed: Failed | None, pair: SolutionPair, settings: Settings
) -> tuple[Entry, Failed | None]:
    try:
        return registry.find_solution(problem, pair.solution, settings, entry=pair.entry), failed
    except KbenchError as error:
        broken = _broken(pair.solution)
        if broken is None:
            raise _located(error, pair) from None
        typed = error.hint is not None and "`" in error.hint  # a command to type, not a file to correct
        reason = f"{error.message}: {error.hint}" if typed else error.message
        return broken, failed or Failed(status=Status.IMPORT_FAILED, reason=reason)
