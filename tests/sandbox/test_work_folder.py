"""Temporary folders of commands: whose they are, and what becomes of those of killed commands."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kbench.sandbox.work_folder import PREFIX, remove_abandoned, work_folder

HOLDS = """
import sys, time
from kbench.sandbox.work_folder import work_folder
with work_folder() as folder:
    (folder / "nested" / "deep").mkdir(parents=True)
    (folder / "nested" / "file").write_text("left")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def holder() -> tuple[subprocess.Popen[str], Path]:
    child = subprocess.Popen([sys.executable, "-c", HOLDS], stdout=subprocess.PIPE, text=True, env=os.environ)
    return child, Path(child.stdout.readline().strip())


def test_a_folder_goes_with_its_block_whatever_it_holds(place: Path) -> None:
    with work_folder() as folder:
        (folder / "sub").mkdir(mode=0o000)
        (folder / "file").write_text("left")
    assert list(place.iterdir()) == []


def test_what_a_killed_command_makes_meanwhile_goes_too(place: Path) -> None:
    with work_folder():
        (place / f"{PREFIX}late" / "worker" / "tmp").mkdir(parents=True)
    assert list(place.iterdir()) == []


def test_the_next_command_removes_the_folder_of_a_killed_one_and_no_other(place: Path) -> None:
    killed, abandoned = holder()
    alive, kept = holder()
    (place / "kbench-results").mkdir()
    (place / f"{PREFIX}link").symlink_to(place / "kbench-results")
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    with work_folder() as own:
        found = {path.name for path in place.iterdir()}
        assert found == {own.name, kept.name, "kbench-results", f"{PREFIX}link"}
        assert (kept / "nested" / "file").read_text() == "left"
        assert not abandoned.exists()
    alive.kill()
    alive.wait()
    remove_abandoned()
    assert {path.name for path in place.iterdir()} == {"kbench-results", f"{PREFIX}link"}
