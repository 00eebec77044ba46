"""A saved run as a user names it. If the name is a problem's, the hint names its latest run."""

from pathlib import Path

from kbench.catalog import places
from kbench.core.errors import UsageError
from kbench.storage import saved_runs
from kbench.storage.results import Run, read_run
from kbench.storage.settings import Settings


def find_path(name: str, folder: Path, settings: Settings) -> Path:
    """Find a run's file as `saved_runs.find_path` does. Raises UsageError."""
    try:
        return saved_runs.find_path(name, folder)
    except UsageError as error:
        if name not in places.problem_names(settings):
            raise
        runs = reversed(saved_runs.list_runs(folder))
        latest = next((run.path.stem for run in runs if any(row.problem == name for row in run.rows)), None)
        known = f"its latest run is `{latest}`" if latest else f"`kbench run {name}` makes a run of it"
        raise UsageError(error.message, f"`{name}` is a problem; {known}") from None


def find_run(name: str, folder: Path, settings: Settings) -> Run:
    """Read a run that a user named. Raises what `find_path` and `read_run` raise."""
    return read_run(find_path(name, folder, settings))
