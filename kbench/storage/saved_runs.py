"""Saved runs as a user names them, and a summary of each."""

from dataclasses import dataclass
from pathlib import Path

from kbench.core.errors import ResultsError, UsageError, did_you_mean
from kbench.core.model import ResultRow, Status
from kbench.storage.results import Run, read_rows, read_run
from kbench.storage.runfiles import LISTING, NTH_LATEST, run_files


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """One line of `kbench list --runs`. `broken` says why the file cannot be read; it then has no rows."""

    path: Path
    rows: tuple[ResultRow, ...]
    broken: str | None

    @property
    def started_utc(self) -> str:
        """Time of its first row."""
        return self.rows[0].started_utc if self.rows else ""


def find_path(name: str, directory: Path = Path("results")) -> Path:
    """Find a run by `@latest`, `@latest~1`, a path, its stem in `directory`, or a unique part of the stem.

    A run that skipped every solution is not the latest. Raises UsageError for none or several, with the closest name.
    """
    if (latest := NTH_LATEST.fullmatch(name)) is not None:
        return _nth_latest(directory, int(latest["before"] or 0))
    for path in (Path(name), directory / name, directory / f"{name}.csv"):
        if path.is_file():
            return path
    stems = [path.stem for path in run_files(directory)]
    meant = [stem for stem in stems if name in stem] if name else []
    if len(meant) == 1:
        return directory / f"{meant[0]}.csv"
    if meant:
        several = f"{len(meant)} runs in {directory} have `{name}` in their names"
        raise UsageError(several, hint=f"for example `{meant[0]}` and `{meant[1]}`: give more of the name")
    if name and Path(name).is_dir():
        raise UsageError(f"{name} is a folder, not a run", hint=f"`kbench list --runs --results {name}` shows its runs")
    hint = did_you_mean(Path(name).stem, ["@latest", "@latest~1", *stems], listing=LISTING)
    if Path(name).suffix == ".csv" and len(Path(name).parts) > 1:
        raise UsageError(f"no file {name}", hint=hint)
    raise UsageError(f"no run named `{name}` in {directory}", hint=hint)


def find_run(name: str, directory: Path = Path("results")) -> Run:
    """Read the run that a user named. Raises what `find_path` and `read_run` raise."""
    return read_run(find_path(name, directory))


def _nth_latest(directory: Path, before: int) -> Path:
    whole = [run for run in list_runs(directory) if run.broken is None]  # oldest first
    judged = [run for run in whole if {row.status for row in run.rows} != {Status.SKIPPED}]
    if whole and not judged:
        hint = f"`kbench show {whole[-1].path.stem}` shows why"
        raise UsageError(f"no run in {directory} judged a solution: all were skipped", hint)
    if not judged:
        raise UsageError(f"no run in {directory}", hint="`kbench run PROBLEM` makes one")
    if before >= len(judged):
        raise UsageError(f"{directory} has {len(judged)} runs", hint=f"the first one is `{judged[0].path.stem}`")
    return judged[-1 - before].path


def list_runs(directory: Path = Path("results")) -> list[ListedRun]:
    """Summarise every run in a folder, oldest first. A file that cannot be read is listed as broken."""
    found = []
    for path in run_files(directory):
        try:
            rows = read_rows(path)
            broken = None if rows else "holds no rows"
        except ResultsError as error:
            rows, broken = [], error.message
        found.append(ListedRun(path=path, rows=tuple(rows), broken=broken))
    return sorted(found, key=lambda run: (run.started_utc, run.path.stem))
