"""A worker below a tool of NVIDIA: start it in its sandbox, and read what the tool wrote."""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kbench.build import cache
from kbench.catalog.registry import Entry
from kbench.core.model import Case
from kbench.host.builder import Builder
from kbench.process.child import TOOL_ORDERS, Child
from kbench.process.child_error import ChildError
from kbench.process.worker_start import Confinement
from kbench.sandbox import removal, rungs

END_LIMIT_S = 60.0
"""Limit for a tool to write its report once its worker was asked to end."""
MAX_CHARACTERS = 4 << 20
Tool = tuple[Sequence[str], Mapping[str, str], float]
"""The command line of a tool, variables for it, and the time limit of each step below it."""


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
    def called(
        self, home: Path, entry: Entry, artefacts: Path, case: Case, tool: Tool, call: Callable[[Child], object]
    ) -> Iterator[tuple[Child, ChildError | None, bool]]:
        """Construct a solution below a tool and have it called; yield the worker once it has ended.

        Yields as well its error, and whether it ended by itself. Raises UnfitArtefactsError.
        """
        command, environment, limit_s = tool
        with self.furnished(home, entry, artefacts, Path(command[0])) as place:
            orders = place.setup(allow_exec=True, threads=1, command=[*command])
            environment, failed = {TOOL_ORDERS: json.dumps(orders), **environment}, None
            with self._running(place, environment, "kbench.worker.under_tool") as child:
                try:
                    # The process was locked in before it became the worker.
                    free = replace(place, rung=rungs.Rung.NONE, hidden=[], temporary=home)
                    self._set_up(child, free, limit_s=limit_s)
                    self._construct(child, entry, case.overrides, built=True)
                    call(child)
                except ChildError as error:
                    failed = error
                has_ended = child.finish(END_LIMIT_S)
                child.kill()
                yield child, failed, has_ended


def head_of(report: Path) -> str:
    """Return the first MAX_CHARACTERS of a file that a candidate can write; empty unless it is a regular file."""
    if not report.is_file() or report.is_symlink():
        return ""
    with report.open(errors="replace") as lines:
        return lines.read(MAX_CHARACTERS)
