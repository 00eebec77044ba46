"""Formatting, lint and types are tests, so that one command says whether a change is fit."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow(seconds=40)
@pytest.mark.parametrize(
    "command",
    [("ruff", "check", "--output-format", "concise"), ("ruff", "format", "--check"), ("mypy",)],
    ids=["ruff check", "ruff format", "mypy"],
)
def test_clean(command):
    done = subprocess.run([sys.executable, "-m", *command], check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
