"""A selftest by the command line that is killed, and goes on."""

import json
import signal
import subprocess
from pathlib import Path

import commands
import pytest

LIMIT_S = 300.0
NAMES = ("aliases_input_when_positive", "broadcastable_shape")
"""Of two problems, so that each waits for a judge of its own."""


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return commands.start(folder, "selftest", *arguments, "--save", "kept")


def kill_after_the_first(process: subprocess.Popen) -> None:
    """Send SIGKILL once a fixture is judged."""
    seen = ""
    while not seen.endswith("\n") or "1/2  " not in seen:
        line = process.stderr.readline()
        assert line, seen
        seen += line
    process.kill()
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.slow(seconds=20)
def test_a_selftest_that_is_killed_has_the_verdicts_of_one_that_was_not(tmp_path) -> None:
    kill_after_the_first(start(tmp_path, *NAMES, "--device", "cpu", "--jobs", "1"))
    (journal,) = (tmp_path / "kept").iterdir()
    out, err = (again := start(tmp_path, "--resume", journal.name, "--json")).communicate(timeout=LIMIT_S)
    assert again.returncode == 0, err
    assert "2 fixtures on cpu, 1 of them kept" in err
    told = json.loads(out)
    assert (told["fixtures"], told["kept"]) == (2, 1)
    kept = sorted((tmp_path / "kept").iterdir())
    assert [path.suffix for path in kept] == [".csv", ".json"]
    assert json.loads(kept[1].read_text()) == told
    assert {one["name"]: (one["status"], one["complaint"]) for one in told["results"]} == {
        "aliases_input_when_positive": ("output_aliased", None),
        "broadcastable_shape": ("wrong_output", None),
    }
