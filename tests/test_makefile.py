"""`make` uses a Python that has the dependencies as the caller set it up."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("goal", ["reference", "test", "evidence"])
@pytest.mark.parametrize("given", [None, "", "/opt/site", "/opt/site:/opt/more"])
def test_the_callers_python_path_comes_behind_the_checkout(tmp_path, goal, given):
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "MAKEFLAGS"}}
    environment |= {"PYTHONPATH": given} if given is not None else {}
    command = ["make", "-n", goal, f"PYTHON={sys.executable}", f"VENV={tmp_path / 'none'}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    wanted = f"PYTHONPATH={ROOT}{f':{given}' if given else ''} {sys.executable} "
    if wanted not in done.stdout and f"{tmp_path / 'none'}/bin/python" in done.stdout:
        pytest.skip("this Python lacks a dependency, so that a virtual environment would be made")
    assert wanted in done.stdout
