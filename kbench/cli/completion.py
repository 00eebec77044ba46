"""Names for the shell's completion, from file names alone: no torch, nothing parsed, no error shown."""

import typer

from kbench.catalog import places
from kbench.cli.command import completing
from kbench.core.errors import KbenchError
from kbench.core.levels import PROPERTIES
from kbench.storage import settings
from kbench.storage.runfiles import run_files


def problems(incomplete: str) -> list[str]:
    """Complete the name of a problem."""
    return _matching(tuple(path.stem for path, _ in places.problem_files(_settings())), incomplete)


def solutions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a solution of the problem that stands before it."""
    problem = _problem(ctx)
    return _matching(places.solution_names(problem, _settings()), incomplete) if problem else []


def cases(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a case of the problem that stands before it."""
    from kbench.catalog import registry

    problem = _problem(ctx)
    try:
        table = registry.selectable_cases(registry.find_problem(problem, _settings())) if problem else {}
    except KbenchError:
        return []
    return _matching(tuple(table), incomplete)


def properties(incomplete: str) -> list[str]:
    """Complete the code of a property of a level."""
    return _matching(tuple(PROPERTIES), incomplete)


def runs(incomplete: str) -> list[str]:
    """Complete the name of a saved run."""
    found = [path.stem for path in run_files(_settings().results)]
    return _matching(("@latest", *found), incomplete)


def _problem(ctx: typer.Context) -> str | None:
    """Find the problem as it was parsed, or, behind a flag that waits for its value, as it was typed."""
    parsed: str | None = ctx.params.get("problem")
    typed = [word for word in (completing() or [])[1:] if not word.startswith("-")]
    return parsed or next(iter(typed), None)


def _settings() -> settings.Settings:
    try:
        return settings.load()
    except KbenchError:
        return settings.Settings()


def _matching(names: tuple[str, ...], incomplete: str) -> list[str]:
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]
