"""Git repositories for tests, by real git."""

import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def new_repository(folder: Path, solutions: str) -> Path:
    """Return a new repository that has a folder for the solutions of a problem."""
    (folder / solutions).mkdir(parents=True)
    git(folder, "init")
    return folder
