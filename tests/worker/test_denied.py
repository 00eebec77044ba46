"""What the sandbox denies a solution is told in words: what was tried, that it is forbidden, and what to do."""

import json
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbench.sandbox import landlock, seccomp

TRIED = {
    "subprocess": ("subprocess.run(['/usr/bin/env', 'true'])", "start `/usr/bin/env`"),
    "a shell": ("subprocess.check_output('true', shell=True)", "start `"),
    "os.fork": ("os.fork()", "start programs"),
    "posix_spawn": ("os.posix_spawn('/bin/true', ['true'], {})", "start `/bin/true`"),
    "execv": ("os.execv('/bin/true', ['true'])", "start"),
    "multiprocessing": ("multiprocessing.get_context('fork').Process(target=print).start()", "start programs"),
    "wrapped": ("wrapped(lambda: subprocess.run(['cc', 'x.c']))", "start `cc`"),
    "TCP": ("socket.create_connection(('127.0.0.1', 9))", "use the network"),
    "UDP": ("socket.socket(socket.AF_INET, socket.SOCK_DGRAM)", "use the network"),
    "a name": ("socket.getaddrinfo('example.org', 80)", "use the network"),
    "urllib": ("urllib.request.urlopen('http://127.0.0.1:9/weights')", "use the network"),
    "a local service": ("socket.socket(socket.AF_UNIX).connect('/run/of_nobody')", "use the network"),
    "a signal": ("os.kill(os.getppid(), 0)", "send signals to other processes"),
}
ON_FILES = {
    "a new file": ("open(outside / 'new.txt', 'w')", "write `"),
    "an old file": ("open(outside / 'old.txt', 'a')", "write `"),
    "a folder": ("os.mkdir(outside / 'folder')", "write `"),
    "removal": ("os.unlink(outside / 'old.txt')", "write `"),
    "a pool": ("multiprocessing.get_context('fork').Pool(1)", "share memory or semaphores"),
    "shared memory": ("multiprocessing.shared_memory.SharedMemory(create=True, size=9)", "share memory or semaphores"),
    "a hidden file": ("open(hidden / 'secret.txt').read()", "read `"),
}
NOT_DENIED = {
    "a missing file": "open('/of/nobody')",
    "its own error": "raise PermissionError('no')",
    "a folder for a file": "open('/tmp')",
}
PROGRAM = """
import json, multiprocessing.shared_memory, os, socket, subprocess, sys, urllib.request
from pathlib import Path
import linecache
from kbench.sandbox import rungs
from kbench.worker import stages

work, outside, hidden = map(Path, sys.argv[1:4])
tried = json.loads(sys.argv[4])

def wrapped(call):
    try:
        call()
    except OSError as error:
        raise RuntimeError("the library says no") from error

def told(code):
    try:
        lines = code.splitlines()
        linecache.cache["<tried>"] = (len(code), None, lines, "<tried>")
        exec(compile(code, "<tried>", "exec"), globals())
    except Exception as error:
        return stages.describe(error)["message"]
    return "nothing was denied"

rungs.restrict_self(rungs.Rung(int(sys.argv[5])), writable=[work], hidden=[hidden], allow_exec=False)
sys.stdout.write(json.dumps({name: told(code) for name, code in tried.items()}))
"""


@pytest.fixture(scope="module")
def told() -> Iterator[dict[str, str]]:
    """Try everything in one locked-in process; its folders are not in /tmp, of which another message speaks."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield run(Path(folder))


def run(folder: Path) -> dict[str, str]:
    folders = [folder / name for name in ("work", "outside", "hidden")]
    for each in folders:
        each.mkdir()
    (folders[1] / "old.txt").touch()
    (folders[2] / "secret.txt").touch()
    if not seccomp.supported():
        pytest.skip("no filter of system calls here")
    codes = {name: code for name, (code, _) in {**TRIED, **ON_FILES}.items()} | NOT_DENIED
    rung = 3 if landlock.abi() else 1
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), *map(str, folders), json.dumps(codes), str(rung)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", TRIED)
def test_a_denied_call_is_told_in_words(told, name):
    assert f"(the sandbox forbids a solution to {TRIED[name][1]}" in told[name]
    assert told[name].endswith(")")
    assert ": " in told[name].rpartition("(the sandbox")[2], "what to do instead"


@pytest.mark.skipif(not landlock.abi(), reason="needs Landlock")
@pytest.mark.parametrize("name", ON_FILES)
def test_a_denied_file_is_told_in_words(told, name):
    assert f"(the sandbox forbids a solution to {ON_FILES[name][1]}" in told[name]
    assert ("tempfile.mkdtemp" in told[name]) == ON_FILES[name][1].startswith("write `")


@pytest.mark.parametrize("name", NOT_DENIED)
def test_other_errors_stay_as_they_are(told, name):
    assert "sandbox" not in told[name]
