"""The profile for the column `own_share` with a real judge and real workers, on a machine where it must fail: a CPU."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from kbench.core.events import Judged, RunOptions
from kbench.core.model import Passed
from kbench.plugins import registry
from kbench.run.session import run
from kbench.storage.results import read_run
from kbench.storage.settings import Settings
from kbench.units import evaluator

PROBLEM = """import torch

n = 64


class Model(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = torch.nn.Linear(n, n)

    def forward(self, x):
        return self.linear(x).tanh()


def get_inputs():
    return [torch.randn(64, n)]


def get_init_inputs():
    return [n]
"""


def test_a_profiler_that_does_not_work_changes_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(evaluator, "backend", lambda _kind: SimpleNamespace(names_kernels=True))
    (tmp_path / "problem.py").write_text(PROBLEM)
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text(PROBLEM.replace("class Model(", "class ModelNew("))
    problem = registry.find_problem(tmp_path / "problem.py", Settings())
    chosen = [registry.find_solution(problem, tmp_path / f"{name}.py", Settings()) for name in ("first", "second")]
    options = RunOptions(
        device="cpu", processes=2, max_processes=2, pairs=4, results_dir=tmp_path / "results", name="told"
    )
    found = [event for event in run(problem, chosen, options) if isinstance(event, Judged)]
    for one in found:
        assert isinstance(one.outcome, Passed), one.outcome
        assert len(one.outcome.timings) == 2
        (note,) = [finding for finding in one.outcome.findings if finding.code == "own_share"]
        assert "not known: " in note.message
        assert any(word in note.message for word in ("profiler", "CUDA", "NVIDIA")), "its three calls before went well"
        assert one.stage_s["profile"] > 0
    rows = read_run(tmp_path / "results" / "told.csv").rows
    assert {(row.status, row.own_share, row.weights) for row in rows} == {("passed", None, "name")}
    assert [(row.solution, row.process) for row in rows].count(("first", 0)) == 1
