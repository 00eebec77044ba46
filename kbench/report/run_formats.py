"""A run as JSON, Markdown and CSV. Names and messages are untrusted, and escaped in Markdown."""

import dataclasses
from typing import Any

from kbench.core.model import ResultRow, Sample
from kbench.report import document
from kbench.report.document import render_document
from kbench.report.pivot import pivot_of
from kbench.report.shown import notes_of_run, rows_of, stack_line
from kbench.report.summary import CaseSummary, RunSummary
from kbench.report.table import Table, as_markdown, table
from kbench.storage.json_values import plain


def render_json(run: RunSummary, *, exit_code: int, command: str = "run", samples: bool = False) -> str:
    """Write a run as one document; with `samples`, which are nine tenths of it, it has every timed call."""
    return render_document(
        command,
        status=run.status,
        reason=run.reason,
        hint=run.error.hint if run.error else None,
        exit_code=exit_code,
        findings=[
            {"solution": case.solution, "case": case.case, **plain(finding)}
            for case in run.cases
            for finding in case.findings
        ],
        speedup=run.speedup,
        speedups={name: run.speedup_of(name) for name in run.solutions},
        problem=run.problem,
        environment=run.environment,
        csv=run.csv_path,
        pivot=pivot.records() if (pivot := pivot_of(run)) is not None else None,
        results=[result(case, samples=samples) for case in run.cases],
    )


def result(case: CaseSummary, *, samples: bool = False) -> dict[str, Any]:
    """Return the fields of a case; samples are columns, which take a third of the size of records."""
    names = [field.name for field in dataclasses.fields(Sample)] if samples else []
    timings = [
        plain(dataclasses.replace(timing, samples=()))
        | {"samples": {name: [plain(getattr(sample, name)) for sample in timing.samples] for name in names}}
        for timing in case.timings
    ]
    return {**plain(dataclasses.replace(case, timings=())), "timings": timings}


def render_markdown(run: RunSummary) -> str:
    """Write a run as a heading, a table, the reasons of failures, and every note."""
    lines = [
        *(f"case {case}: {constants}" for case, constants in run.constants.items()),
        *(
            f"{name}, case {case.case}: {case.reason}"
            for case, name in zip(run.cases, run.names, strict=True)
            if not case.passed
        ),
        *(note.line for note in notes_of_run(run)),
    ]
    pivot = pivot_of(run)
    blocks: list[str | Table] = [f"{run.problem}: {run.status}", stack_line(run.environment)]
    blocks += [table(rows_of(run, walls_apart=True))] if run.cases else []
    blocks += [pivot.title, pivot.table(pivot.run.solutions, mark="")] if pivot is not None else []
    return as_markdown([*blocks, "\n".join(lines)])


def render_rows(run: RunSummary) -> str:
    """Write the rows of a run as CSV, with the columns of a results file."""
    return document.render_records(run.rows, ResultRow)
