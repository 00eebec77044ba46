"""A run as JSON, Markdown and CSV. Names and messages are untrusted, and escaped in Markdown."""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any

from kbench.core.events import Judged
from kbench.core.model import Passed, ResultRow, Sample, Timing
from kbench.report import document
from kbench.report.document import render_document
from kbench.report.pivot import pivot_of
from kbench.report.shown import notes_of_run, rows_of, stack_line
from kbench.report.summary import CaseSummary, RunSummary
from kbench.report.table import Table, as_markdown, table
from kbench.storage.json_values import plain


def render_json(
    run: RunSummary, judged: Sequence[Judged], *, exit_code: int, command: str = "run", samples: bool = False
) -> str:
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
        results=[
            {
                **plain(case),
                "timings": [_timing(timing, samples) for timing in _timings(one)],
            }
            for case, one in zip(run.cases, judged, strict=True)
        ],
    )


def _timings(one: Judged) -> tuple[Timing, ...]:
    return one.outcome.timings if isinstance(one.outcome, Passed) else ()


def _timing(timing: Timing, samples: bool) -> dict[str, Any]:
    """Return one process; samples are columns, which take a third of the size of records."""
    names = [field.name for field in dataclasses.fields(Sample)] if samples else []
    columns = {name: [plain(getattr(sample, name)) for sample in timing.samples] for name in names}
    return {**plain(dataclasses.replace(timing, samples=())), "samples": columns}


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


def render_pytorch_benchmark(run: RunSummary) -> str:
    """Write the records that PyTorch's benchmark dashboard takes: one for each figure, with a value per process."""
    return json.dumps(plain([record for case in run.cases for record in _dashboard(case)]), indent=2, allow_nan=False)


def _dashboard(case: CaseSummary) -> Iterator[dict[str, Any]]:
    if not case.rows:
        return
    row = case.rows[0]
    info = {"device": row.device, "arch": row.gpu_name, "case": case.case, "constants": case.constants}
    info |= {"status": case.status, "level": case.level or "", "attestation": case.attestation, "mode": row.mode}
    shared = {
        "benchmark": {"name": "kbench", "mode": "inference", "dtype": _dtype(row), "extra_info": info},
        "model": {"name": row.problem, "type": "kernel", "backend": case.solution, "origins": []},
        "dependencies": {"torch": {"version": row.torch}, "kbench": {"version": row.kbench_version}},
    }
    yield {**shared, "metric": {"name": "passed", "benchmark_values": [int(case.passed)], "target_value": 1}}
    limit = {} if row.limit_ns is None else {"target_value": row.limit_ns / 1e3}
    for name, column, size, more in (
        ("time_us", "time_ns_median", 1e-3, limit),
        ("wall_us", "wall_ns", 1e-3, {}),
        ("speedup", "speedup", 1.0, {}),
        ("bandwidth_gb_per_s", "gb_per_s", 1.0, {}),
        ("tflop_per_s", "tflop_per_s", 1.0, {}),
        ("peak_memory_bytes", "peak_bytes", 1.0, {}),
    ):
        values = [size * value for one in case.rows if (value := getattr(one, column)) is not None]
        if values and case.passed:
            yield {**shared, "metric": {"name": name, "benchmark_values": values, **more}}


def _dtype(row: ResultRow) -> str:
    """Return the dtype of the first output, else of the first input; empty where the problem was not opened."""
    inputs, _, outputs = row.tensors.rpartition("->")
    return (outputs.strip() or inputs.strip()).partition("[")[0]
