"""A worker below a tool of NVIDIA: start it in its sandbox, and read what the tool wrote."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kbench.build import cache
from kbench.catalog.registry import Entry
from kbench.core.model import Case
from kbench.host.builder import Builder
from kbench.process.child import TOOL_ORDERS, Child
from kbench.process.worker_start import Confinement
from kbench.sandbox import removal, rungs


class BelowTool(Builder):
    """Starts workers below a tool, each with a private copy of the build."""

    @contextlib.contextmanager
    def furnished(self, home: Path, entry: Entry, artefacts: Path, *tools: Path) -> Iterator[Confinement]:
        """Copy a build into `home` for a `with` block; yield what a worker may see. Raises UnfitArtefactsError."""
        home.mkdir(parents=True, exist_ok=True)
        try:
            try:
                cache.CacheEntry(folder=artefacts).copy_to(home / "cache")
                temporary = cache.furnish(home / "cache")
            except OSError as error:
                raise cache.UnfitArtefactsError(cache.uncopied(error)) from error
            yield self._confined(entry, home, [home], temporary, *tools)
        finally:
            removal.remove(home)

    @contextlib.contextmanager
    def started(
        self, home: Path, entry: Entry, artefacts: Path, command: Sequence[str], environment: Mapping[str, str]
    ) -> Iterator[Child]:
        """Start a worker below a tool's `command` for a `with` block, as in `furnished`. Raises UnfitArtefactsError."""
        with self.furnished(home, entry, artefacts, Path(command[0])) as place:
            orders = place.setup(allow_exec=True, threads=1, command=[*command])
            environment = {TOOL_ORDERS: json.dumps(orders), **environment}
            child = self._start(place, environment, "kbench.worker.under_tool")
            try:
                yield child
            finally:
                self._children.remove(child)
                child.kill()

    def prepare(self, child: Child, home: Path, limit_s: float, entry: Entry, case: Case) -> None:
        """Have the worker open the device and construct the solution as it is built. Raises ChildError."""
        # The process was locked in before it became the worker.
        place = replace(self._confined(entry, home, [home], home), rung=rungs.Rung.NONE, hidden=[])
        self._set_up(child, place, limit_s=limit_s)
        self._construct(child, entry, case.overrides, built=True)


def head_of(report: Path, most: int) -> str:
    """Return the first `most` characters of a file that a candidate can write; empty unless it is a regular file."""
    if not report.is_file() or report.is_symlink():
        return ""
    with report.open(errors="replace") as lines:
        return lines.read(most)
