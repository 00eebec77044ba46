"""The source of each solution of a run, if it is unchanged, with the remarks on its lines."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kbench.build import manifest
from kbench.build.interpreter import kernels_of
from kbench.build.observation import SOURCE_SUFFIXES
from kbench.core.errors import KbenchError
from kbench.plugins import registry
from kbench.plugins.source import read_head
from kbench.report.summary import CaseSummary
from kbench.report.table import one_line
from kbench.storage.settings import Settings

MOST_BYTES = 200_000
MOST_REMARKS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceListing:
    """One file of a solution."""

    solution: str
    name: str
    note: str = ""
    lines: tuple[tuple[int, str, list[str]], ...] = ()
    """Number, text and remarks of each."""


def listings(cases: Sequence[CaseSummary], settings: Settings) -> list[SourceListing]:
    """Return the files of every solution with its own source, once each."""
    named: dict[str, list[CaseSummary]] = {}
    for case in cases:
        named.setdefault(case.solution, []).append(case)
    return [listing for mine in named.values() for listing in _of_solution(mine, settings)]


def _of_solution(cases: Sequence[CaseSummary], settings: Settings) -> list[SourceListing]:
    row = cases[0].rows[0]
    try:
        problem = registry.find_problem(row.problem_path or row.problem, settings)
        entry = registry.find_solution(problem, row.solution_path or row.solution, settings, entry=row.entry or None)
    except KbenchError as error:
        note = f"its source is not here: {error.message}"
        return [SourceListing(solution=row.solution, name=row.solution, note=note)]
    if entry.builtin is not None:
        return []
    if not manifest.is_identity(row.source_sha256, entry.path, entry.variant):
        note = "the file, or one that it is built from, has changed since this run: it is not shown"
        return [SourceListing(solution=row.solution, name=entry.path.name, note=note)]
    told = "\n".join(
        text for case in cases for text in (case.reason, case.log, *(finding.message for finding in case.findings))
    )
    return [_listing(row.solution, path, told) for path in own_files(entry.path, entry.variant)]


def own_files(path: Path, variant: str = "") -> list[Path]:
    """List a solution's files that a page may show, its own first; none of other folders."""
    start = path.absolute()
    folders = (start.parent, kernels_of(path).resolve())
    found = [
        one
        for one in manifest.current(path, variant).paths(path)
        if one.suffix in SOURCE_SUFFIXES
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
    lines = content[:MOST_BYTES].decode(errors="replace").splitlines()
    return SourceListing(
        solution=solution,
        name=path.name,
        note=f"only the first {MOST_BYTES} bytes are shown" if len(content) > MOST_BYTES else "",
        lines=tuple((number, line, remarks.get(number, [])) for number, line in enumerate(lines, start=1)),
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
