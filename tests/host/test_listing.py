"""`CASES` that must be computed: what the child answers, what is kept, and what a broken file is told."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kbench.catalog import registry
from kbench.core.errors import PluginError
from kbench.host import listing
from kbench.storage.settings import Settings

FILE = """import torch
from torch import nn
from shapes import ROWS
rows, kind = 4, torch.float32
CASES = {f"{m}": {"rows": m, "kind": d, "weight": 2} for m in ROWS for d in [torch.float16]}
class Model(nn.Module):
    def forward(self, x): return x + 1
def get_inputs(): return [torch.randn(rows, 4, dtype=kind)]
"""


@pytest.fixture
def problem(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("kbench.catalog.source.COMPUTE", [listing.computed])
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "shapes.py").write_text("ROWS = [1, 3]\n")
    path = folder / "add.py"
    path.write_text(FILE)
    return path


def cases(path: Path):
    parsed = registry.find_problem(path, Settings()).parsed
    return parsed.cases, parsed.weights


def test_a_comprehension_is_computed_once_and_again_where_a_file_that_it_read_changed(problem, monkeypatch):
    expected = {"1": {"rows": 1, "kind": "float16"}, "3": {"rows": 3, "kind": "float16"}}
    assert cases(problem) == (expected, {"1": 2.0, "3": 2.0})
    with monkeypatch.context() as patch:
        patch.setattr(listing._Listing, "run", lambda _self: pytest.fail("the answer is kept"))
        assert cases(problem)[0] == expected
    (problem.parent / "shapes.py").write_text("ROWS = [7]\n")
    assert [*cases(problem)[0]] == ["7"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("CASES = {str(m): {'rows': m // 0} for m in ROWS}", r"add.py, line 5: ZeroDivisionError: integer"),
        ("CASES = {str(m): {'rows': torch.ones(2)} for m in ROWS}", "case `1` sets `rows` to a Tensor, no number"),
        ("CASES = [{'rows': m} for m in ROWS]", "add.py, line 5: CASES is a list, not a dictionary of cases"),
        ("CASES = {str(m): {'row': m} for m in ROWS}", "case `1` sets `row`, which the file does not define"),
        ("import os; os._exit(3); CASES = {**{}}", "exited with code 3"),
        ("raise SystemExit(2); CASES = {**{}}", "line 5: `raise SystemExit"),
    ],
)
def test_a_broken_file_is_named_with_its_line(problem, line, message):
    problem.write_text(re.sub("CASES = .*", lambda _: line, FILE))
    with pytest.raises(PluginError, match=message) as caught:
        cases(problem)
    assert caught.value.hint


def test_a_file_that_does_not_end_is_stopped(problem, monkeypatch):
    monkeypatch.setattr(listing, "TIMEOUT_S", 0.5)
    problem.write_text(FILE.replace("CASES = ", "while True: pass\nCASES = "))
    with pytest.raises(PluginError, match="running it for its CASES took longer than 0 s") as caught:
        cases(problem)
    assert "__main__" in str(caught.value.hint)


@pytest.mark.parametrize("module", ["kbench.api.judge", "kbench.engine.evaluator", "kbench.mcp.server"])
def test_every_process_that_judges_can_compute_cases(module):
    if module.startswith("kbench.mcp"):
        pytest.importorskip("mcp")
    code = f"import {module}; from kbench.catalog import source; print(source.COMPUTE[0].__module__)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "kbench.host.listing"
