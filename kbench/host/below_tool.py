"""A worker below a tool of NVIDIA: start it in its sandbox, and read what the tool wrote."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kbench.build import cache
from kbench.children.child import TOOL_ORDERS, Child
from kbench.host.builder import Builder
from kbench.plugins.registry import Entry
from kbench.sandbox import hidden_paths, removal, rungs
from kbench.sandbox.namespaces import Surroundings


class BelowTool(Builder):
    """Starts workers below a tool, each with a private copy of the build."""

    @contextlib.contextmanager
    def furnished(
        self, home: Path, entry: Entry, artefacts: Path, *tools: Path
    ) -> Iterator[tuple[list[Path], Surroundings]]:
        """Copy a build into a folder `home`; yield hidden paths and surroundings, then remove the folder.

        Raises UnfitArtefactsError if the build cannot be copied.
        """
        home.mkdir(parents=True, exist_ok=True)
        try:
            temporary = _copied(artefacts, home / "cache")
            hidden = self._hidden(entry)
            files = [entry.path, self._problem.path, *tools]
            yield hidden, hidden_paths.surroundings(temporary, own=[home], files=files, hidden=hidden)
        finally:
            removal.remove(home)

    @contextlib.contextmanager
    def started(
        self, home: Path, entry: Entry, artefacts: Path, command: Sequence[str], environment: Mapping[str, str]
    ) -> Iterator[Child]:
        """Start a worker below the tool for the length of a `with` block, with a folder as in `furnished`.

        `command` is the tool's, without the program. Raises UnfitArtefactsError.
        """
        with self.furnished(home, entry, artefacts, Path(command[0])) as (hidden, around):
            orders = {
                "command": [*command],
                "rung": self._context.rung,
                "folder": str(home),
                "temporary": around.temporary,
                "hidden": [str(path) for path in hidden],
            }
            told = {TOOL_ORDERS: json.dumps(orders), **environment}
            child = Child(self._launch("kbench.worker.under_tool", told, home, around))
            try:
                yield child
            finally:
                child.kill()

    def prepare(self, child: Child, home: Path, limit_s: float) -> None:
        """Have the worker import torch and open the device. Raises ChildError."""
        # The process was locked in before it became the worker.
        self._set_up(child, [home], str(home), [], rung=rungs.Rung.NONE, limit_s=limit_s)


def _copied(artefacts: Path, folder: Path) -> Path:
    """Copy a build to `folder`; return the place for temporary files."""
    try:
        cache.CacheEntry(folder=artefacts).copy_to(folder)
        return cache.furnish(folder)
    except OSError as error:
        raise cache.UnfitArtefactsError(cache.uncopied(error)) from error


def head_of(report: Path, most: int) -> str:
    """Return the first `most` characters of a file that a candidate can write; empty unless it is a regular file."""
    if not report.is_file() or report.is_symlink():
        return ""
    with report.open(errors="replace") as lines:
        return lines.read(most)
