"""The source of each solution of a run, if it is unchanged, with the remarks on its lines."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kbench.build import sources
from kbench.core.errors import KbenchError
from kbench.plugins import registry
from kbench.plugins.plain_files import read_head
from kbench.report.summary import CaseSummary
from kbench.report.table import one_line
from kbench.storage.settings import Settings

MOST_BYTES = 200_000
"""Largest part of one file that is shown."""
MOST_REMARKS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedLine:
    """One line of a source with its remarks."""

    number: int
    text: str
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceListing:
    """One file of a solution."""

    solution: str
    name: str
    note: str = ""
    """Why there are no lines, or fewer than the file has."""
    lines: tuple[ListedLine, ...] = field(default=())


def listings(cases: Sequence[CaseSummary], settings: Settings) -> list[SourceListing]:
    """Return the files of every solution with its own source, once each."""
    found: list[SourceListing] = []
    for name in dict.fromkeys(case.solution for case in cases):
        found += _of_solution([case for case in cases if case.solution == name], settings)
    return found


def _of_solution(cases: Sequence[CaseSummary], settings: Settings) -> list[SourceListing]:
    row = cases[0].rows[0] if cases[0].rows else None
    if row is None:
        return []
    try:
        problem = registry.find_problem(row.problem_path or row.problem, settings)
        entry = registry.find_solution(problem, row.solution_path or row.solution, settings, entry=row.entry or None)
    except KbenchError as error:
        return [
            SourceListing(solution=row.solution, name=row.solution, note=f"its source is not here: {error.message}")
        ]
    if entry.builtin is not None:
        return []
    if sources.source_sha256(entry.path, entry.variant) != row.source_sha256:
        note = "the file, or one that it is built from, has changed since this run: it is not shown"
        return [SourceListing(solution=row.solution, name=entry.path.name, note=note)]
    told = "\n".join(
        text for case in cases for text in (case.reason, case.log, *(finding.message for finding in case.findings))
    )
    return [_listing(row.solution, path, told) for path in own_files(entry.path)]


def own_files(path: Path) -> list[Path]:
    """List the files of a solution that a page may show, its own first.

    What lies elsewhere is left out: a stranger's source may include any file of this machine by its path.
    """
    start = path.resolve()
    folders = (start.parent, sources.kernels_of(path).resolve())
    found = [
        one
        for one in sources.dependencies(path)
        if one.suffix in sources.SOURCE_SUFFIXES
        and one.name != "__init__.py"
        and any(one.is_relative_to(folder) for folder in folders)
    ]
    return sorted(found, key=lambda one: one != start)


def _listing(solution: str, path: Path, told: str) -> SourceListing:
    try:
        content = read_head(path, MOST_BYTES)
    except OSError as error:
        return SourceListing(solution=solution, name=path.name, note=f"it cannot be read: {error.strerror}")
    remarks = remarked_lines(path.name, told)
    text = content[:MOST_BYTES].decode(errors="replace")
    return SourceListing(
        solution=solution,
        name=path.name,
        note=f"only the first {MOST_BYTES} bytes are shown" if len(content) > MOST_BYTES else "",
        lines=tuple(
            ListedLine(number=number, text=line, remarks=tuple(remarks.get(number, ())))
            for number, line in enumerate(text.splitlines(), start=1)
        ),
    )


def remarked_lines(name: str, told: str) -> dict[int, list[str]]:
    """Return remarks on lines of a file, from messages: `name:12: ...`, `name(12): ...` or `File "name", line 12`."""
    pattern = re.compile(rf'{re.escape(name)}(?::|\(|", line )(\d{{1,6}})\b')
    found: dict[int, list[str]] = {}
    for line in told.splitlines():
        for match in pattern.finditer(line):
            remarks = found.setdefault(int(match[1]), [])
            text = one_line(line)[:300]
            if text not in remarks and len(remarks) < MOST_REMARKS:
                remarks.append(text)
    return found
