"""The files of saved runs by name, without opening them."""

import re
from pathlib import Path

SAMPLES_SUFFIX = ".samples.csv"
LATEST = "@latest"
LISTING = "`kbench list --runs` shows the saved runs"
NTH_LATEST = re.compile(re.escape(LATEST) + r"(?:~(?P<before>[0-9]{1,4}))?")


def samples_path(csv_path: Path) -> Path:
    """Path of the raw samples that belong to a results CSV."""
    return csv_path.with_name(csv_path.name.removesuffix(".csv") + SAMPLES_SUFFIX)


def run_files(directory: Path) -> list[Path]:
    """List the CSV files of a folder except samples, in alphabetical order."""
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.glob("*.csv") if not path.name.endswith(SAMPLES_SUFFIX))


def shown_path(path: Path) -> str:
    """Write a path relative to the working folder if it lies below it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
