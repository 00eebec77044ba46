"""`kbench list`: problems, the solutions and cases of one, and saved runs. Listing imports none of them."""

import os
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbench.cli import completion, shared_flags
from kbench.cli.options import OutputFlags, argument, command, switch
from kbench.cli.output import Format, Output
from kbench.core.errors import ExitCode, PluginError
from kbench.plugins import registry
from kbench.plugins.registry import Entry
from kbench.report.document import render_document
from kbench.report.table import Table, one_line, table
from kbench.storage.saved_runs import list_runs
from kbench.storage.settings import Settings

WRAPPING = frozenset({"cases", "constants", "problems", "solutions", "summary", "unreadable"})
MOST_NAMED = 3
"""Most problems and solutions of one run that a line names (chosen): a sweep has hundreds. `-v` names all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A table in the making: headings and cells, and the table that text shows below it."""

    names: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    below: "Listing | None" = None
    nothing: str = "nothing to list"
    shortened: frozenset[str] = frozenset()
    """Headings of lists of names that text shows in part, and of times that it shows to the minute, in UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ListFlags(OutputFlags):
    problem: str | None = argument(
        "PROBLEM", "List the solutions of this problem", default=None, autocompletion=completion.problems
    )
    cases: bool = switch("--cases", "List the problem's cases instead")
    runs: bool = switch("--runs", "List saved runs instead")
    results: Path | None = shared_flags.results()


@command(_ListFlags)
def main(flags: _ListFlags) -> int:
    """List problems, solutions, cases and runs."""
    output, settings = flags.output(), flags.settings()
    if flags.runs:
        listing = _runs(flags.results or settings.results)
    elif flags.problem is None:
        listing = _problems(settings)
    elif flags.cases:
        listing = _cases(registry.find_problem(flags.problem, settings))
    else:
        problem = registry.find_problem(flags.problem, settings)
        rows = [(one.name, one.devices, one.origin, one.summary) for one in registry.solutions(problem, settings)]
        listing = Listing(names=("solution", "devices", "from", "summary"), rows=rows, below=_cases(problem))
    if not listing.rows and output.format is Format.TEXT and output.verbosity >= 0:
        output.note(listing.nothing)
        return ExitCode.OK
    shown = _table(listing)
    records = [dict(zip(listing.names, row, strict=True)) for row in listing.rows]
    output.show(
        text=lambda: _render_text(output, listing),
        json=lambda: render_document("list", status="ok", results=records),
        csv=shown.csv,
        md=shown.markdown,
    )
    return ExitCode.OK


def _problems(settings: Settings) -> Listing:
    rows = []
    named = registry.problems(settings)
    known = {problem.path.resolve() for problem in named}
    own = [problem for problem in registry.problems_in(Path.cwd()) if problem.path.resolve() not in known]
    names = Counter(problem.name for problem in (*named, *own))
    for problem in (*named, *own):
        files = [entry.name for entry in registry.solutions(problem, settings) if entry.builtin is None]
        name = problem.name if names[problem.name] == 1 else os.path.relpath(problem.path)  # which a command takes
        cases: tuple[str, ...] = ()
        with suppress(PluginError):
            cases = tuple(registry.selectable_cases(problem))
        rows.append((name, cases, tuple(files), problem.origin, problem.summary))
    return Listing(names=("problem", "cases", "solutions", "from", "summary"), rows=rows)


def _cases(problem: Entry) -> Listing:
    """List cases with all constants in force: people know a case by its sizes."""
    parsed = problem.parsed
    own, weights = parsed.cases, parsed.weights
    file = "the file" if parsed.cases_are_literal else "the file, run once"
    rows = [
        (name, file if name in own else "derived", weights.get(name, ""), parsed.constants(overrides))
        for name, overrides in registry.selectable_cases(problem).items()
    ]
    return Listing(names=("case", "from", "weight", "constants"), rows=rows)


def _runs(folder: Path) -> Listing:
    rows = [
        (
            *(run.name, run.started_utc, run.problems, run.solutions),
            *(f"{run.passed}/{run.rows}", run.gpu_name, run.broken or ""),
        )
        for run in list_runs(folder)
    ]
    names = ("run", "started", "problems", "solutions", "rows passed", "device", "unreadable")
    nothing = f"no run is saved in {os.path.relpath(folder)}\n\nhint: `kbench run PROBLEM` saves one"
    return Listing(names=names, rows=rows, nothing=nothing, shortened=frozenset({"started", "problems", "solutions"}))


def _table(listing: Listing, shortened: Collection[str] = ()) -> Table:
    texts = [_shortened if name in shortened else _text for name in listing.names]
    rows = [
        {name: text(value) for name, text, value in zip(listing.names, texts, row, strict=True)} for row in listing.rows
    ]
    return table(rows, titles=listing.names, wraps=WRAPPING, spare={"device": 1})


def _render_text(output: Output, listing: Listing) -> str:
    whole = _table(listing, listing.shortened if output.verbosity <= 0 else ())
    if output.verbosity < 0:
        return "\n".join(row[0] for row in whole.rows)
    shown = whole.text(indent="", width=output.width)
    return shown if listing.below is None else f"{shown}\n\n{_render_text(output, listing.below)}"


def _shortened(value: str | Sequence[str]) -> str:
    if isinstance(value, str):
        return one_line(value[: len("2026-01-01T00:00")].replace("T", " "))
    more = len(value) - MOST_NAMED
    return _text(value[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return _text([f"{name}={item}" for name, item in value.items()])
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(str(item) for item in value)
    return one_line(str(value))
