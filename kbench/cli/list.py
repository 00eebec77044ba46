"""`kbench list`: problems, the solutions and cases of one, and saved runs. Listing imports none of them."""

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kbench.catalog import registry
from kbench.catalog.registry import Entry
from kbench.cli import completion, shared_flags
from kbench.cli.options import OutputFlags, argument, command, switch
from kbench.cli.output import Format, Output
from kbench.core.errors import ExitCode, PluginError
from kbench.core.model import Status
from kbench.report.table import Table, one_line, table
from kbench.storage.saved_runs import list_runs
from kbench.storage.settings import Settings

WRAPPING = frozenset({"cases", "constants", "problems", "solutions", "summary", "unreadable"})
MOST_NAMED = 3
"""Most problems and solutions of one run that a line names (chosen): a sweep has hundreds. `-v` names all."""


Row = dict[str, Any]


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
    below: list[Row] = []
    if flags.runs:
        rows = _runs(folder := flags.results or settings.results)
        if not rows and output.format is Format.TEXT and output.verbosity >= 0:
            output.note(f"no run is saved in {os.path.relpath(folder)}\n\nhint: `kbench run PROBLEM` saves one")
            return ExitCode.OK
    elif flags.problem is None:
        rows = _problems(settings)
    else:
        problem = registry.find_problem(flags.problem, settings)
        below = _cases(problem)
        solutions = [
            {"solution": one.name, "devices": one.devices, "from": one.origin, "summary": one.summary}
            for one in registry.solutions(problem, settings)
        ]
        rows, below = (below, []) if flags.cases else (solutions, below if output.verbosity >= 0 else [])
    output.records(
        "list", _table(rows), rows, lambda: "\n\n".join(_text(output, part) for part in (rows, below) if part)
    )
    return ExitCode.OK


def _problems(settings: Settings) -> list[Row]:
    rows = []
    named = registry.problems(settings)
    known = {problem.path.resolve() for problem in named}
    own = [problem for problem in registry.problems_in(Path.cwd()) if problem.path.resolve() not in known]
    names = Counter(problem.name for problem in (*named, *own))
    for problem in (*named, *own):
        files = [entry.name for entry in registry.solutions(problem, settings) if entry.builtin is None]
        name = problem.name if names[problem.name] == 1 else os.path.relpath(problem.path)  # which a command takes
        cases: list[str] = []
        with suppress(PluginError):
            cases = [*registry.selectable_cases(problem)]
        about = {"from": problem.origin, "summary": problem.summary}
        rows.append({"problem": name, "cases": cases, "solutions": files, **about})
    return rows


def _cases(problem: Entry) -> list[Row]:
    """List cases with all constants in force: people know a case by its sizes."""
    parsed = problem.parsed
    own, weights = parsed.cases, parsed.weights
    file = "the file" if parsed.cases_are_literal else "the file, run once"
    return [
        {
            "case": name,
            "from": file if name in own else "derived",
            "weight": weights.get(name),
            "constants": parsed.constants(overrides),
        }
        for name, overrides in registry.selectable_cases(problem).items()
    ]


def _runs(folder: Path) -> list[Row]:
    return [
        {
            "run": run.path.stem,
            "started": run.started_utc,
            "problems": tuple(dict.fromkeys(row.problem for row in run.rows)),
            "solutions": tuple(dict.fromkeys(row.solution for row in run.rows)),
            "passed": f"{sum(row.status == Status.PASSED for row in run.rows)}/{len(run.rows)}",
            "device": run.rows[0].gpu_name if run.rows else "",
            "unreadable": run.broken or "",
        }
        for run in list_runs(folder)
    ]


def _table(rows: Sequence[Row], *, short: bool = False) -> Table:
    """Write each value; `short`: of runs in a line, which may be sweeps, times to the minute and few of many names."""

    def written(name: str, value: Any) -> str:
        if isinstance(value, dict):
            value = [f"{constant}={item}" for constant, item in value.items()]
        if isinstance(value, float):
            value = f"{value:g}"
        if short and name == "started":
            value = value[: len("2026-01-01T00:00")].replace("T", " ")
        if isinstance(value, str) or not isinstance(value, Sequence):
            return "" if value is None else one_line(str(value))
        more = len(value) - MOST_NAMED if short else 0
        return " ".join(map(str, value[:MOST_NAMED] if more > 0 else value)) + (f" and {more} more" * (more > 0))

    texts = [{name: written(name, value) for name, value in row.items()} for row in rows]
    return table(texts, wraps=WRAPPING, spare={"device": 1})


def _text(output: Output, rows: Sequence[Row]) -> str:
    whole = _table(rows, short=output.verbosity <= 0 and "run" in rows[0])
    if output.verbosity < 0:
        return "\n".join(row[0] for row in whole.rows)
    return whole.text(indent="", width=output.width)
