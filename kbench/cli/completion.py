"""Names for the shell's completion, from file names alone: no torch, nothing parsed, no error shown."""

from typing import Any

import typer

from kbench.core.errors import KbenchError
from kbench.plugins import registry
from kbench.storage import settings
from kbench.storage.results import SAMPLES_SUFFIX


def problems(incomplete: str) -> list[str]:
    """Complete the name of a problem."""
    return _matching(registry.problem_names(_settings()), incomplete)


def solutions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a solution of the problem that stands before it."""
    problem: Any = ctx.params.get("problem")
    return _matching(registry.solution_names(problem, _settings()), incomplete) if problem else []


def cases(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a case of the problem that stands before it."""
    problem: Any = ctx.params.get("problem")
    try:
        table = registry.case_table(registry.find_problem(problem, _settings())) if problem else {}
    except KbenchError:
        return []
    return _matching(tuple(table), incomplete)


def runs(incomplete: str) -> list[str]:
    """Complete the name of a saved run."""
    folder = _settings().results
    found = sorted(path.stem for path in folder.glob("*.csv") if not path.name.endswith(SAMPLES_SUFFIX))
    return _matching(("@latest", *found), incomplete)


def _settings() -> settings.Settings:
    try:
        return settings.load()
    except KbenchError:
        return settings.Settings()


def _matching(names: tuple[str, ...], incomplete: str) -> list[str]:
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]
