"""A selftest by the command line that is ended twice, once by `timeout` and once by kill -9, and goes on."""

import json
import re
import shlex
import signal
import subprocess
from pathlib import Path

import commands
import pytest

LIMIT_S = 300.0
NAMES = ("aliases_input_when_positive", "broadcastable_shape", "gelu_by_erf")
"""Of three problems, so that each waits for a judge of its own."""


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return commands.start(folder, "selftest", *arguments)


def end_after(process: subprocess.Popen, judged: int, number: signal.Signals) -> tuple[str, str]:
    """Send a signal once so many fixtures are judged; return what the selftest printed."""
    seen = ""
    while not seen.endswith("\n") or f"{judged}/3  " not in seen:
        line = process.stderr.readline()
        assert line, seen
        seen += line
    process.send_signal(number)
    out, err = process.communicate(timeout=LIMIT_S)
    return out, seen + err


@pytest.mark.slow(seconds=30)
def test_a_selftest_that_is_ended_twice_has_the_verdicts_of_one_that_was_not(tmp_path) -> None:
    first = start(tmp_path, *NAMES, "--device", "cpu", "--save", "kept", "--jobs", "1")
    out, err = end_after(first, 1, signal.SIGTERM)
    assert (first.returncode, "selftest ended early: 1 of 3" in out) == (130, True), err
    _, *again = shlex.split(re.search("`kbench (selftest .*)` goes on", err)[1])

    second = start(tmp_path, *again)
    end_after(second, 2, signal.SIGKILL)
    assert second.returncode == -signal.SIGKILL

    out, err = (third := start(tmp_path, *again, "--json")).communicate(timeout=LIMIT_S)
    assert third.returncode == 0, err
    assert "3 fixtures on cpu, 2 of them kept" in err
    told = json.loads(out)
    assert (told["fixtures"], told["kept"]) == (3, 2)
    kept = sorted((tmp_path / "kept").iterdir())
    assert [path.suffix for path in kept] == [".csv", ".json"]
    assert json.loads(kept[1].read_text()) == told
    assert {one["name"]: (one["status"], one["complaint"]) for one in told["results"]} == {
        "aliases_input_when_positive": ("output_aliased", None),
        "broadcastable_shape": ("wrong_shape", None),
        "gelu_by_erf": ("passed", None),
    }
