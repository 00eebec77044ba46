"""Git: the commit of a folder, and the versions of a results file in its history."""

import functools
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kbench.core.errors import MachineError, ResultsError
from kbench.storage.results import Run, read_run
from kbench.storage.runfiles import samples_path

MOST_VERSIONS = 50
"""Chosen. Versions of a file that are read, the newest ones: about 40 ms each."""


def git(folder: Path, *arguments: str, timeout_s: float | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder. Raises MachineError where it is not installed, TimeoutExpired."""
    try:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, check=False, capture_output=True, timeout=timeout_s)
    except FileNotFoundError:
        raise MachineError("git is not installed", "install it: kbench reads other commits with it") from None


@functools.cache
def git_state(folder: Path) -> tuple[str, bool]:
    """Return (commit, whether anything is uncommitted), or ("", False) outside a repository."""
    with suppress(MachineError, OSError, subprocess.TimeoutExpired):
        if not (found := git(folder, "rev-parse", "HEAD", timeout_s=10)).returncode:
            changed = git(folder, "status", "--porcelain", "--untracked-files=no", timeout_s=10)
            return found.stdout.decode().strip(), bool(changed.stdout.strip())
    return "", False


def versions(path: Path) -> Iterator[Run]:
    """Yield a results file as its commits have it, the oldest first; those that this kbench cannot read are left out.

    None outside a repository. Raises MachineError where git is not installed.
    """
    folder, names = path.resolve().parent, [path.name, samples_path(path).name]
    log = git(folder, "log", "--format=%H", f"-{MOST_VERSIONS}", "--", f"./{path.name}")
    for commit in reversed(log.stdout.decode().split()):
        with tempfile.TemporaryDirectory(prefix="kbench-") as place, suppress(ResultsError):
            for name in names:
                (Path(place) / name).write_bytes(git(folder, "show", f"{commit}:./{name}").stdout)
            yield read_run(Path(place) / path.name)
