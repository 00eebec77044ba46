"""The cases of a run, further cases of verification, and the calls that builds rehearse for them."""

import fnmatch
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kbench.core.errors import UsageError, did_you_mean
from kbench.core.events import RunOptions
from kbench.core.levels import Level
from kbench.core.model import Case
from kbench.plugins import registry
from kbench.plugins.registry import Entry
from kbench.plugins.small_case import SMALL


def select(problem: Entry, options: RunOptions, preferred: Sequence[str]) -> tuple[Case, ...]:
    """Return the cases that globs select, else the first preferred one, with `--set`; the derived one by name only."""
    table = registry.selectable_cases(problem) if SMALL in options.cases else problem.parsed.cases
    known = sorted(problem.parsed.constants())
    unknown = sorted(set(options.overrides) - set(known))
    if unknown:
        raise UsageError(f"`{problem.name}` has no constant `{unknown[0]}`", did_you_mean(unknown[0], known))
    if options.cases:
        for pattern in options.cases:
            if not fnmatch.filter(table, pattern):
                names = [*registry.selectable_cases(problem)]
                hint = did_you_mean(pattern, names, listing=f"cases: {', '.join(names)}")
                raise UsageError(f"`{problem.name}` has no case `{pattern}`", hint)
        names = [name for name in table if any(fnmatch.fnmatch(name, pattern) for pattern in options.cases)]
    else:
        names = [next((name for name in preferred if name in table), next(iter(table)))]
    return tuple(Case(name=name, overrides={**table[name], **options.overrides}) for name in names)


def small_case(problem: Entry, options: RunOptions) -> Case | None:
    """Return the problem's case `small`, its own or the derived one, as `--case small` selects it."""
    constants = registry.selectable_cases(problem).get(SMALL)
    return None if constants is None else Case(name=SMALL, overrides={**constants, **options.overrides})


def others(problem: Entry, options: RunOptions, chosen: Sequence[Case]) -> dict[str, dict[str, Any]]:
    """Return the further cases that verification covers: `small` first, then those named `ragged*`."""
    table = problem.parsed.cases
    known = {case.name for case in chosen}
    names = [n for n in table if n not in known and (n == "small" or n.startswith("ragged"))]
    names.sort(key=lambda name: name != "small")
    return {name: {**options.overrides, **table[name]} for name in names}


def needs_derived_shapes(problem: Entry, solution: Entry, level: Level) -> bool:
    """Return whether a solution is verified at shapes that the problem does not list: it names no ragged ones."""
    if solution.builtin not in {None, "eager"} or level is Level.TASK:
        return False  # torch would compile for each shape
    return not any(name.startswith("ragged") for name in problem.parsed.cases)


def set_by_hand(problem: Entry, case: str, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a row's constants that came from `--set`: JSON, which has made lists of the case's tuples."""
    known = registry.selectable_cases(problem).get(case, {})
    of_case = json.loads(json.dumps(known, default=str))
    return {name: value for name, value in recorded.items() if name not in of_case or of_case[name] != value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """A case for which a solution must be built."""

    overrides: Mapping[str, Any]
    layouts: bool = False
    """Whether verification tries other layouts of its inputs."""


def rehearsals(
    problem: Entry, cases: Sequence[Case], others: Iterable[Mapping[str, Any]], derived: Iterable[Mapping[str, Any]]
) -> dict[str, Rehearsal]:
    """Return the cases to build for, by key; layouts are tried at the first of the `others`, else at the cases."""
    chosen, others = [case.overrides for case in cases], [*others]
    laid_out = others[:1] or chosen
    every = [Rehearsal(overrides=given, layouts=given in laid_out) for given in (*chosen, *others, *derived)]
    text = problem.path.read_bytes()
    return {
        hashlib.sha256(text + repr((sorted(one.overrides.items()), one.layouts)).encode()).hexdigest()[:24]: one
        for one in every
    }
