"""Code in a process that has imported torch and nothing else: in a fork of one, since importing it takes 1.4 s."""

import contextlib
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

SERVER = """
import json, os, sys, traceback
import torch

for line in sys.stdin:
    code, *files = json.loads(line)
    pid = os.fork()
    if pid == 0:
        for number, name in enumerate(files, start=1):
            os.dup2(os.open(name, os.O_WRONLY), number)
        failed = True
        try:
            exec(code, {"__name__": "__main__"})
            failed = False
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(failed)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class AfterTorch:
    """The process, and the files that its forks print to."""

    def __init__(self, folder: Path):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        # A program with `-c` finds modules in the folder that it is started in.
        self._process = subprocess.Popen([sys.executable, "-c", SERVER], cwd=Path(__file__).parent.parent, **pipes)
        self._files = [folder / "stdout", folder / "stderr"]

    def run(self, code: str) -> str:
        """Run code as a program and return what it prints; it must succeed."""
        for path in self._files:
            path.write_text("")
        self._process.stdin.write(json.dumps([textwrap.dedent(code), *map(str, self._files)]) + "\n")
        self._process.stdin.flush()
        ended = self._process.stdout.readline().strip()
        out, err = (path.read_text() for path in self._files)
        assert ended == "0", err
        return out


@contextlib.contextmanager
def started(folder: Path) -> Iterator[AfterTorch]:
    """Start the process, for forks that print to files in `folder`."""
    one = AfterTorch(folder)
    with one._process:  # closes its standard input, which ends it
        yield one
