"""`kbench watch` as a user runs it: two saves, then Ctrl-C."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_corpus import problem, solution
from waiting import wait_until


@pytest.mark.slow
def test_saves_are_judged_until_it_is_interrupted(tmp_path: Path, own_cache: Path) -> None:
    (tmp_path / "double.py").write_text(problem())
    file = tmp_path / "mine.py"
    file.write_text(solution("return 2 * x"))
    shown = tmp_path / "shown.txt"
    # What runs in the background of a script ignores Ctrl-C, and so do its children.
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    start += "from kbench.cli.app import main\nmain()"
    words = ["watch", "double.py", "mine.py", "--device", "cpu", "--verify-only"]
    with shown.open("w") as out:
        process = subprocess.Popen([sys.executable, "-c", start, *words], cwd=tmp_path, stdout=out)
        try:
            wait_until(lambda: len(shown.read_text().splitlines()) == 1, within_s=120)
            file.write_text(solution("return 3 * x"))
            wait_until(lambda: len(shown.read_text().splitlines()) == 2, within_s=120)
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 0
        finally:
            process.kill()
    first, second = shown.read_text().splitlines()
    assert first.startswith("1  default  passed  ")
    assert second.startswith("2  default  WRONG_VALUE  ")
