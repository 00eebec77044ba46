"""The cases of a run, further cases of verification, and the calls that builds rehearse for them."""

import fnmatch
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kbench.catalog import registry
from kbench.catalog.constant_text import case_of_constants, require_kind
from kbench.catalog.registry import Entry
from kbench.catalog.shapes import sizes_of
from kbench.catalog.small_case import SMALL
from kbench.core.errors import UsageError, did_you_mean
from kbench.core.events import RunOptions
from kbench.core.levels import Level
from kbench.core.model import Case
from kbench.core.timed import BACKWARD, FORWARD, SUFFIX, forward_of, timed_of

MOST_LISTED = 12
"""Chosen. Names of cases in a hint: a grid has hundreds."""


def select(problem: Entry, options: RunOptions, preferred: Sequence[str]) -> tuple[Case, ...]:
    """Return the selected cases (`_of_forward`); with `--backward` each one is followed by that of both passes.

    `small+backward` selects only the latter of the case `small`.
    """
    of_both = [forward_of(pattern) for pattern in options.cases if timed_of(pattern) != FORWARD]
    of_forward = [pattern for pattern in options.cases if timed_of(pattern) == FORWARD]
    chosen = () if of_both and not of_forward else _of_forward(problem, options, of_forward, preferred)
    more = _of_forward(problem, options, of_both, preferred) if of_both else ()
    doubled = (*(chosen if options.backward else ()), *more)
    found = [each for case in chosen for each in (case, *(_both_passes(case) for _ in range(case in doubled)))]
    return (*found, *(_both_passes(case) for case in more if case not in chosen))


def _both_passes(case: Case) -> Case:
    return replace(case, name=f"{case.name}{SUFFIX}")


def like(case: Case, other: Case) -> Case:
    """Return a case of forward with the passes of another case."""
    return case if timed_of(other.name) == FORWARD else _both_passes(case)


def _of_forward(
    problem: Entry, options: RunOptions, patterns: Sequence[str], preferred: Sequence[str]
) -> tuple[Case, ...]:
    """Return the cases that globs or constants select, else the first preferred one, with `--set` applied.

    `M=1024,N=64` is the case with these constants, `small,M=1024` the case `small` with one changed. The derived case
    is selected by its name only.
    """
    parsed = problem.parsed
    table, weights, constants = registry.selectable_cases(problem), parsed.weights, parsed.constants()
    own = parsed.cases
    _require_constants(problem, constants, options.overrides)

    def made(name: str, base: str, changed: Mapping[str, Any]) -> Case:
        overrides = {**table.get(base, {}), **options.overrides, **changed}
        return Case(name=name, overrides=overrides, weight=weights.get(base, 1.0))

    if not patterns:
        name = next((name for name in preferred if name in own), next(iter(own)))
        return (made(name, name, {}),)
    plain: set[str] = set()
    points: dict[str, Case] = {}
    for pattern in patterns:
        found = _matching(pattern, own, table)
        plain.update(found)
        base, changed = (None if found else case_of_constants(pattern)) or ("", {})
        bases = _matching(base, own, table) if base else [""]
        if not found and (not changed or not bases):
            names = [*table]
            hint = did_you_mean(base or pattern, names, listing=f"cases: {', '.join(names[:MOST_LISTED])}")
            raise UsageError(f"`{problem.name}` has no case `{base or pattern}`", hint)
        _require_constants(problem, constants, changed)
        for one in bases if changed else ():
            name = pattern if one == base else f"{one}{pattern[len(base) :]}"
            points[name] = made(name, one, changed)
    return (*(made(name, name, {}) for name in table if name in plain), *points.values())


def _matching(pattern: str, own: Mapping[str, Any], table: Mapping[str, Any]) -> list[str]:
    return [pattern] if pattern in table else fnmatch.filter(own, pattern)


def _require_constants(problem: Entry, known: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise UsageError for a constant that the file does not define, or that has another kind of value."""
    for name, value in sorted(given.items()):
        if name not in known:
            raise UsageError(f"`{problem.name}` has no constant `{name}`", did_you_mean(name, sorted(known)))
        require_kind(name, known[name], value)


def small_case(problem: Entry, options: RunOptions) -> Case | None:
    """Return the problem's case `small`, its own or the derived one, as `--case small` selects it."""
    constants = registry.selectable_cases(problem).get(SMALL)
    return None if constants is None else Case(name=SMALL, overrides={**constants, **options.overrides})


def others(problem: Entry, options: RunOptions, case: Case) -> dict[str, dict[str, Any]]:
    """Return the further cases that verification of a case covers: `small` first, then those named `ragged*`.

    A constant that they do not name has the value of the case unless it is a size: so it is with a dtype.
    """
    table, own = problem.parsed.cases, forward_of(case.name)
    names = sorted((n for n in table if n != own and is_covered(n)), key=lambda name: name != SMALL)
    kept = {name: value for name, value in case.overrides.items() if not sizes_of(value)}
    return {name: {**kept, **options.overrides, **table[name]} for name in names}


def is_covered(name: str) -> bool:
    """Return whether verification of every case covers the case of this name."""
    return name == SMALL or name.startswith("ragged")


def needs_derived_shapes(problem: Entry, solution: Entry, level: Level) -> bool:
    """Return whether a solution is verified at shapes that the problem does not list: it names no ragged ones."""
    if solution.builtin not in {None, "eager"} or level is Level.TASK:
        return False  # torch would compile for each shape
    return not any(name.startswith("ragged") for name in problem.parsed.cases)


def set_by_hand(problem: Entry, case: str, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a row's constants that came from `--set`: JSON, which has made lists of the case's tuples."""
    base, changed = case_of_constants(forward_of(case)) or (forward_of(case), {})
    known = {**registry.selectable_cases(problem).get(base, {}), **changed}
    of_case = json.loads(json.dumps(known, default=str))
    return {name: value for name, value in recorded.items() if name not in of_case or of_case[name] != value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """A case for which a solution must be built."""

    overrides: Mapping[str, Any]
    layouts: bool = False
    """True if verification tries other layouts of its inputs."""
    timed: str = FORWARD
    """Passes that a call runs."""


def rehearsals(
    problem: Entry, cases: Sequence[Case], others: Iterable[Mapping[str, Any]], derived: Iterable[Mapping[str, Any]]
) -> dict[str, Rehearsal]:
    """Return the cases to build for, by key; layouts are tried at the first of the `others`, else at the cases."""
    chosen, others = [case.overrides for case in cases], [*others]
    laid_out = others[:1] or chosen
    timed = BACKWARD if any(timed_of(case.name) == BACKWARD for case in cases) else FORWARD
    made = ((given, given in laid_out) for given in (*chosen, *others, *derived))
    every = [Rehearsal(overrides=given, layouts=layouts, timed=timed) for given, layouts in made]
    text = problem.path.read_bytes()
    keys = [repr((sorted(one.overrides.items()), one.layouts, one.timed)) for one in every]
    return {hashlib.sha256(text + key.encode()).hexdigest()[:24]: one for key, one in zip(keys, every, strict=True)}
