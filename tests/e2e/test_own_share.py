"""The profile for the column `own_share` with a real judge and real workers, on a machine where it must fail: a CPU."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny_corpus
from verdicts import verdicts, written

from kbench.core.model import Passed
from kbench.engine import evaluator
from kbench.storage.results import read_run

RESULT, LAYERS = "self.linear(x).tanh()", "self.linear = nn.Linear(n, n)"


@pytest.mark.slow
def test_a_profiler_that_does_not_work_changes_no_verdict(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluator, "backend", lambda _kind: SimpleNamespace(names_kernels=True))
    text = tiny_corpus.problem(RESULT, given="torch.randn(64, n)", constants="n = 64", layers=LAYERS, takes="n")
    right = tiny_corpus.solution(f"return {RESULT}", layers=LAYERS, takes="n")
    problem, chosen = written(tmp_path, text, {"right": right})
    saved = {"save": True, "results_dir": tmp_path / "results", "name": "profiled", "precision": 0.9}
    (one,) = verdicts(problem, chosen, verify_only=False, processes=2, max_processes=2, pairs=4, **saved).values()
    assert isinstance(one.outcome, Passed), one.outcome
    assert len(one.outcome.timings) == 2
    (note,) = [finding for finding in one.outcome.findings if finding.code == "kernels"]
    assert "not known: " in note.message
    assert any(word in note.message for word in ("profiler", "CUDA", "NVIDIA")), "its three calls before went well"
    assert one.stage_s["profile"] > 0
    rows = read_run(tmp_path / "results" / "profiled.csv").rows
    assert {(row.status, row.own_share, row.weights) for row in rows} == {("passed", None, "name")}
