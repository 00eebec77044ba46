"""Kill kbench at random moments, let it go on, and see what is left: `python tests/kill_campaign.py [TRIALS] [SEED]`.

Each trial begins a `run`, a `sweep` or a `selftest` on the CPU, kills one process of it with SIGKILL (the command, the
nursery, a judge, what serves its workers, or a worker), and resumes until the command has ended. It prints one line a
trial and fails on the first thing that is lost, done twice, blamed on an honest solution, or left behind.
With `full`, each trial has a small disk instead, which fills up and gets room again; it needs the right to mount.
"""

import contextlib
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import commands
from tiny_corpus import problem, solution

from kbench.sandbox.process_table import members, processes

KINDS = ("command", "nursery", "judge", "its nursery", "worker")
"""By their distance from the command; all that is further away belongs to a worker."""
COMMANDS = ("run", "sweep", "selftest")
SOLUTIONS = {"twice": "2 * x", "added": "x + x", "shifted": "x - (-x)"}
FIXTURES = {
    "aliases_input_when_positive": "output_aliased",
    "broadcastable_shape": "wrong_output",
    "gelu_by_erf": "passed",
}
RIGHT = Counter({(f"times_2_{name}", "passed"): 1 for name in SOLUTIONS})
WANTED = {"run": RIGHT, "sweep": RIGHT, "selftest": Counter(dict.fromkeys(FIXTURES.items(), 1))}
"""How often each solution is in the results with each status."""
DISKS = ("results", "cache", "tmp")
LIMIT_S, ENDS_S = 240.0, 10.0
MOST_STARTS = 4
DISK_BYTES = 96 << 20


class Trial:
    """One command in a folder of its own, with its cache, locks and temporary files."""

    def __init__(self, folder: Path, command: str):
        self.folder, self.command = folder, command
        self.temporary, self.cache = folder / "tmp", folder / "cache"
        for name in ("tmp", "cache", "solutions"):
            (folder / name).mkdir(exist_ok=True)
        (folder / "times_2.py").write_text(problem("2 * x"))
        for name, body in SOLUTIONS.items():
            (folder / "solutions" / f"times_2_{name}.py").write_text(solution(f"return {body}"))
        files = [str(path) for path in sorted((folder / "solutions").iterdir())]
        usual = ["--device", "cpu", "--level", "task", "--name", "one"]
        self.arguments = {
            "run": ["run", "times_2.py", *files, *usual, "--quick"],
            "sweep": ["sweep", "times_2.py", *files, *usual, "--until", "verify", "--lanes", "2"],
            "selftest": ["selftest", *FIXTURES, "--device", "cpu", "--save", "results", "--jobs", "2"],
        }[command]

    def start(self, *, again: bool) -> subprocess.Popen[str]:
        """Start the command, or resume it if it left something to resume."""
        begun = [path for path in self.folder.glob("results/*.journal.jsonl") if b"\n" in path.read_bytes()]
        arguments = self.arguments
        if again and begun:
            name = begun[0].name.removesuffix(".journal.jsonl")
            place = ["--save", "results"] if self.command == "selftest" else []
            arguments = [self.command, "--resume", name, *place]
        elif again:
            shutil.rmtree(self.folder / "results", ignore_errors=True)
        places = {"TMPDIR": self.temporary, "KBENCH_CACHE": self.cache, "KBENCH_LEASES": self.folder / "leases"}
        return commands.start(self.folder, *arguments, **{name: str(place) for name, place in places.items()})

    def verdicts(self) -> Counter[tuple[str, str]]:
        """Return each solution with its status, and how often it is in the results."""
        (path,) = [path for path in self.folder.glob("results/*.csv") if "samples" not in path.name]
        name = "name" if self.command == "selftest" else "solution"
        with path.open(newline="") as stream:
            return Counter((row[name], row["status"]) for row in csv.DictReader(stream))

    def judged_twice(self) -> list[str]:
        """Return the units that the journal has more than once with a verdict."""
        texts = [path.read_text() for path in self.folder.glob("results/*.journal.jsonl")]
        lines = [json.loads(line) for text in texts for line in text.splitlines()]
        judged = [one for one in lines if "key" in one and one["result"]["outcome"].get("status") != "harness_error"]
        units = [(one["key"], one["process"]) for one in judged]
        return [str(unit) for unit, count in Counter(units).items() if count > 1]

    def left(self) -> list[str]:
        """Return the processes and folders of this trial that are still there."""
        found = [str(path.name) for path in (*self.temporary.iterdir(), *self.cache.glob("builds/.*"))]
        mark = f"TMPDIR={self.temporary}".encode()
        for place in Path("/proc").glob("[0-9]*/environ"):
            try:
                found += [f"process {place.parent.name}"] if mark in place.read_bytes().split(b"\0") else []
            except OSError:  # it ended, or belongs to another user
                continue
        return found


def victim(root: int, kind: str) -> int | None:
    """Return a process of a kind below the command; None if there is none now."""
    table = {one: found for one, found in processes().items() if not found.dead}
    distance = {root: 0}
    for process in sorted(members(root), key=lambda one: one.pid):
        steps, above = 0, process.pid
        while above in table and above != root:
            steps, above = steps + 1, table[above].parent
        distance[process.pid] = steps
    fitting = [pid for pid, steps in distance.items() if min(steps, len(KINDS) - 1) == KINDS.index(kind)]
    return random.choice(fitting) if fitting else None


def disturb(running: subprocess.Popen[str], kind: str) -> str:
    """Kill a process of a kind once there is one, some time later; return what happened."""
    later_s = random.uniform(0.0, 3.0)
    while running.poll() is None:
        if (pid := victim(running.pid, kind)) is not None:
            time.sleep(later_s)
            later_s = 0.0
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return "killed"
        time.sleep(0.02)
    return "ended before"


def fill(folder: Path) -> None:
    """Leave no room on the disk of a folder."""
    with (folder / "filler").open("wb", buffering=0) as file:
        while True:
            try:
                file.write(b"\0" * (1 << 20))
            except OSError:
                return


def judge(trial: Trial, kind: str) -> str:
    """Disturb one command and let it go on; return what it came to. Raises AssertionError."""
    running = trial.start(again=False)
    if kind.startswith("full"):
        time.sleep(random.uniform(0.5, 8.0))
        disk = trial.folder / kind.removeprefix("full ")
        fill(disk)
        what, (code, out, err) = "filled", commands.finish(running, LIMIT_S)
        (disk / "filler").unlink()
    else:
        what, (code, out, err) = disturb(running, kind), commands.finish(running, LIMIT_S)
    starts = 1
    while code != 0 and starts < MOST_STARTS:
        assert "Traceback" not in err, err
        code, out, err = commands.finish(trial.start(again=True), LIMIT_S)
        starts += 1
    assert code == 0, out + err
    assert trial.verdicts() == WANTED[trial.command], trial.verdicts()
    assert not trial.judged_twice(), trial.judged_twice()
    deadline = time.monotonic() + ENDS_S
    while (left := trial.left()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left, left
    return f"{what}, {starts} start{'s' * (starts > 1)}"


def main(count: int = 20, seed: int = 0, *, full: bool) -> None:
    """Run the campaign, and print its table."""
    random.seed(seed)
    failures = 0
    for number in range(count):
        command = COMMANDS[number % len(COMMANDS)]
        kind = f"full {DISKS[number // len(COMMANDS) % len(DISKS)]}" if full else KINDS[number % len(KINDS)]
        folder, began = Path(tempfile.mkdtemp(prefix="campaign-")), time.monotonic()
        disk = folder / kind.removeprefix("full ")
        if full:
            disk.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", disk], check=True)
        try:
            result = judge(Trial(folder, command), kind)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            failures, result = failures + 1, f"FAILED: {str(error)[-1500:]}"
        finally:
            if full:
                subprocess.run(["umount", "-l", disk], check=True)
            shutil.rmtree(folder, ignore_errors=True)
        print(f"{number + 1:>3}  {command:<8}  {kind:<12}  {time.monotonic() - began:5.1f} s  {result}", flush=True)  # noqa: T201
    print(f"{count - failures} of {count} trials lost nothing and left nothing")  # noqa: T201
    sys.exit(failures > 0)


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:] if word.isdigit()), full="full" in sys.argv)
