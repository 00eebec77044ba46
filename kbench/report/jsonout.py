"""A run as one JSON document, with all measurements."""

import dataclasses
from typing import Any

from kbench.core.events import Judged
from kbench.core.model import Passed, Sample, Timing
from kbench.report.document import render_document
from kbench.report.summary import CaseSummary, RunSummary
from kbench.storage.json_values import plain


def render_run(run: RunSummary, judged: tuple[Judged, ...], *, exit_code: int, command: str = "run") -> str:
    """Write a run; `findings` are those of every case, `speedup` is that of its one solution."""
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
        results=[_result(case, one) for case, one in zip(run.cases, judged, strict=True)],
    )


def _result(case: CaseSummary, judged: Judged) -> dict[str, Any]:
    timings = judged.outcome.timings if isinstance(judged.outcome, Passed) else ()
    return {**plain(case), "timings": [_timing(timing) for timing in timings]}


def _timing(timing: Timing) -> dict[str, Any]:
    """One process; samples are columns, which take a third of the size of records."""
    names = [field.name for field in dataclasses.fields(Sample)]
    columns = {name: [plain(getattr(sample, name)) for sample in timing.samples] for name in names}
    return {**plain(dataclasses.replace(timing, samples=())), "samples": columns}
