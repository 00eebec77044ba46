"""The Python of child processes: where bytecode is read and written, and by whom."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from verdicts import verdicts

from kbench.build import interpreter
from kbench.catalog import registry
from kbench.core.levels import Level
from kbench.core.model import Passed
from kbench.process.worker_start import worker_environment
from kbench.sandbox import rung_probe
from kbench.sandbox.rungs import Rung
from kbench.storage import settings

OURS = "OURS"
THEIRS = "/somewhere/else"


@pytest.fixture
def cache(own_cache):
    lacks_bytecode = interpreter._lacks_bytecode
    lacks_bytecode.cache_clear()
    yield own_cache
    lacks_bytecode.cache_clear()


@pytest.mark.parametrize(
    ("compiled", "prefix", "writes", "expected"),
    [
        (True, None, False, {}),
        (True, None, True, {}),
        (False, None, False, {"PYTHONPYCACHEPREFIX": OURS}),
        (False, None, True, {"PYTHONPYCACHEPREFIX": OURS, "PYTHONDONTWRITEBYTECODE": ""}),
        # What the user says of a place of their own holds.
        (False, THEIRS, False, {"PYTHONPYCACHEPREFIX": THEIRS}),
        (False, THEIRS, True, {"PYTHONPYCACHEPREFIX": THEIRS}),
    ],
)
def test_bytecode_is_kept_where_packages_came_without(cache, monkeypatch, compiled, prefix, writes, expected) -> None:
    torch = SimpleNamespace(cached=__file__ if compiled else "/nowhere/torch.pyc")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: torch)
    monkeypatch.setattr(sys, "pycache_prefix", prefix)
    ours = {name: str(cache / "bytecode") if value == OURS else value for name, value in expected.items()}
    assert interpreter.bytecode(writes=writes) == ours
    assert (cache / "bytecode").exists() == ("PYTHONDONTWRITEBYTECODE" in expected)


def test_workers_may_not_write_what_judges_may(cache, monkeypatch) -> None:
    monkeypatch.setattr(interpreter, "_lacks_bytecode", lambda: True)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert worker_environment(cache)["PYTHONDONTWRITEBYTECODE"] == "1"
    assert interpreter.child_environment()["PYTHONDONTWRITEBYTECODE"] == ""


def test_workers_run_triton_in_its_interpreter_where_the_caller_says_so(cache, monkeypatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert "TRITON_INTERPRET" not in worker_environment(cache)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert worker_environment(cache)["TRITON_INTERPRET"] == "1"


POISONS = """import os
import sys

import torch

FOLDER = sys.pycache_prefix
FOUND = [os.path.join(f, name) for f, _, names in os.walk(FOLDER) for name in names if name.startswith("__init__")]
assert FOUND and open(FOUND[0], "rb").read(), "bytecode is for workers to read"
for path in (FOUND[0], os.path.join(FOLDER, "new.pyc")):
    try:
        open(path, "ab")
    except OSError:
        continue
    raise AssertionError(f"can write {path}")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.silu(x)
"""


@pytest.mark.slow
def test_a_worker_reads_the_bytecode_that_judges_wrote_and_cannot_change_it(cache, tmp_path, monkeypatch) -> None:
    if not any(rung_probe.works(rung, "cpu") is None for rung in (Rung.FULL, Rung.LANDLOCK)):
        pytest.skip("no rung that protects files works here")
    monkeypatch.setattr(interpreter, "_lacks_bytecode", lambda: True)
    problem = registry.find_problem(Path(__file__).parents[1] / "kernelbench" / "25_Swish.py", settings.load())
    (tmp_path / "mine.py").write_text(POISONS)
    entry = registry.find_solution(problem, tmp_path / "mine.py", settings.load())
    outcome = verdicts(problem, [entry], level=Level.TASK)[entry.name].outcome
    assert isinstance(outcome, Passed), outcome
    written = list((cache / "bytecode").rglob("torch/__init__*.pyc"))
    assert len(written) == 1
