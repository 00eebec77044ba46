"""A saved run as a user names it: where the name is a problem's instead, the hint says which run is meant."""

from pathlib import Path

from kbench.core.errors import UsageError
from kbench.plugins import places
from kbench.storage import saved_runs
from kbench.storage.results import Run
from kbench.storage.settings import Settings


def find_run(name: str, folder: Path, settings: Settings) -> Run:
    """Find a run as `saved_runs.find_run` does. Raises UsageError and ResultsError, as that does."""
    try:
        return saved_runs.find_run(name, folder)
    except UsageError as error:
        if name not in places.problem_names(settings):
            raise
        latest = next((run.name for run in reversed(saved_runs.list_runs(folder)) if name in run.problems), None)
        known = f"its latest run is `{latest}`" if latest else f"`kbench run {name}` makes a run of it"
        raise UsageError(error.message, f"`{name}` is a problem; {known}") from None
