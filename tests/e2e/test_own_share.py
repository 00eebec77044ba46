"""The profile for the column `own_share` with a real judge and real workers, on a machine where it must fail: a CPU."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from texts import problem_text, solution_text, written

from kbench.core.events import Judged, RunOptions
from kbench.core.model import Passed
from kbench.run.session import run
from kbench.storage.results import read_run
from kbench.units import evaluator

FORWARD, LAYERS = "return self.linear(x).tanh()", "self.linear = nn.Linear(n, n)"


def test_a_profiler_that_does_not_work_changes_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(evaluator, "backend", lambda _kind: SimpleNamespace(names_kernels=True))
    text = problem_text(FORWARD, "torch.randn(64, n)", head="n = 64", init=LAYERS, takes="n")
    right = solution_text(FORWARD, init=LAYERS, takes="n")
    problem, chosen = written(tmp_path, text, {"first": right, "second": right})
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
