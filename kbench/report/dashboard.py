"""A run as the records that PyTorch's benchmark dashboard takes (pytorch/test-infra, `benchmark_result_v3`)."""

import json
from collections.abc import Iterator
from typing import Any

from kbench.report.summary import CaseSummary, RunSummary
from kbench.storage.json_values import plain

FIGURES = (
    ("time_us", "time_ns_median", 1e-3),
    ("wall_us", "wall_ns", 1e-3),
    ("speedup", "speedup", 1.0),
    ("bandwidth_gb_per_s", "gb_per_s", 1.0),
    ("tflop_per_s", "tflop_per_s", 1.0),
    ("peak_memory_bytes", "peak_bytes", 1.0),
)
"""Names of the dashboard's metrics, each with a column of a row and the factor of its unit."""


def render_pytorch_benchmark(run: RunSummary) -> str:
    """Write one record for each figure of a case, with a value for each process."""
    return json.dumps(plain([record for case in run.cases for record in _records(case)]), indent=2, allow_nan=False)


def _records(case: CaseSummary) -> Iterator[dict[str, Any]]:
    if not case.rows:
        return
    row = case.rows[0]
    inputs, _, outputs = row.tensors.rpartition("->")
    dtype = (outputs.strip() or inputs.strip()).partition("[")[0]  # empty where the problem was not opened
    info = {"device": row.device, "arch": row.gpu_name, "case": case.case, "constants": case.constants}
    info |= {"status": case.status, "level": case.level or "", "attestation": case.attestation, "mode": row.mode}
    shared = {
        "benchmark": {"name": "kbench", "mode": "inference", "dtype": dtype, "extra_info": info},
        "model": {"name": row.problem, "type": "kernel", "backend": case.solution, "origins": []},
        "dependencies": {"torch": {"version": row.torch}, "kbench": {"version": row.kbench_version}},
    }
    yield {**shared, "metric": {"name": "passed", "benchmark_values": [int(case.passed)], "target_value": 1}}
    for name, column, factor in FIGURES:
        values = [factor * value for one in case.rows if (value := getattr(one, column)) is not None]
        has_target = column == "time_ns_median" and row.limit_ns is not None
        target = {"target_value": factor * row.limit_ns} if has_target and row.limit_ns is not None else {}
        if values and case.passed:
            yield {**shared, "metric": {"name": name, "benchmark_values": values, **target}}
