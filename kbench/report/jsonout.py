"""One JSON document per command, whatever happened: `schema`, `command`, `status`, `reason`, and its data."""

import dataclasses
import json
import math
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

from kbench import __version__
from kbench.core.errors import KbenchError
from kbench.core.model import Failed, Passed, Sample, Timing
from kbench.report.summary import CaseSummary, RunSummary
from kbench.run import Judged

SCHEMA = 1
"""Version of the documents: names and meanings of the keys. New keys may come without a new version."""


def render_document(command: str, *, status: str, reason: str = "", **data: Any) -> str:
    """Write one document; values that JSON lacks (NaN, infinities) become their names as text."""
    head = {"schema": SCHEMA, "command": command, "kbench_version": __version__, "status": status}
    return json.dumps(
        plain({**head, "reason": reason, **data}), indent=2, allow_nan=False, ensure_ascii=False
    )


def render_error(command: str, error: KbenchError) -> str:
    """Write the document of a command that ended before it had anything to show."""
    return render_document(
        command,
        status="error",
        reason=error.message,
        hint=error.hint,
        exit_code=int(error.exit_code),
        findings=[],
        speedup=None,
        results=[],
    )


def render_run(run: RunSummary, judged: tuple[Judged, ...], *, exit_code: int, command: str = "run") -> str:
    """Write a run with all that was measured; `findings` are those of every case, worst kinds included."""
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


def plain(value: Any) -> Any:
    """Turn records, enums, paths and non-finite numbers into what JSON has."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    nameless = isinstance(value, PurePath) or (isinstance(value, float) and not math.isfinite(value))
    return str(value) if nameless else value


def _result(case: CaseSummary, judged: Judged) -> dict[str, Any]:
    summary = plain(case)
    del summary["rows"]
    outcome: Passed | Failed = judged.outcome
    timings = outcome.timings if isinstance(outcome, Passed) else ()
    return {**summary, "rows": plain(case.rows), "timings": [_timing(timing) for timing in timings]}


def _timing(timing: Timing) -> dict[str, Any]:
    """One process; its samples as columns, which is a third of the size of records."""
    names = [field.name for field in dataclasses.fields(Sample)]
    columns = {name: [plain(getattr(sample, name)) for sample in timing.samples] for name in names}
    return {**{k: v for k, v in plain(timing).items() if k != "samples"}, "samples": columns}
