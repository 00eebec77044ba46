"""A saved run as a user names it: where the name is a problem's instead, the hint says which run is meant."""

from pathlib import Path

from kbench.core.errors import UsageError
from kbench.plugins import places
from kbench.storage import results
from kbench.storage.results import Run
from kbench.storage.settings import Settings


def find_path(name: str, folder: Path, settings: Settings) -> Path:
    """Find a run's file as `results.find_path` does. Raises UsageError, as that does."""
    try:
        return results.find_path(name, folder)
    except UsageError as error:
        if name not in places.problem_names(settings):
            raise
        latest = next((run.name for run in reversed(results.list_runs(folder)) if name in run.problems), None)
        known = f"its latest run is `{latest}`" if latest else f"`kbench run {name}` makes a run of it"
        raise UsageError(error.message, f"`{name}` is a problem; {known}") from None


def find_run(name: str, folder: Path, settings: Settings) -> Run:
    """Read a run as `results.find_run` does. Raises UsageError and ResultsError, as that does."""
    return results.read_run(find_path(name, folder, settings))
