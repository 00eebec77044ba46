"""Judge honest kernels all at once beside a build that keeps all processors busy, and each alone.

`python tests/busy_machine --rounds 5 --out FILE.csv`, on a machine with a GPU. A line is one verdict; `ratio`
is its time as a share of the time alone. Exits with 1 if a kernel is refused.
"""

import argparse
import ast
import csv
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
AT_ONCE = 12
COLUMNS = ("round", "solution", "status", "attestation", "timer", "flags", "t_us", "ratio", "speedup")


def names() -> list[str]:
    """Return the solutions' names."""
    tree = ast.parse((HERE / "solutions.py").read_text())
    found = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    return [name for name in found if name != "Weighted"]


@contextmanager
def busy() -> Iterator[None]:
    """Keep every processor busy with compilers, as a build does."""
    source = (
        '#include <regex>\n#include <map>\nint main() { std::regex r("a"); std::map<int, int> m; return m.size(); }'
    )
    loop = f"while true; do printf '%s' '{source}' | c++ -O2 -x c++ - -o /dev/null; done"
    builds = [
        subprocess.Popen(
            ["sh", "-c", loop], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for build in builds:
            os.killpg(build.pid, 9)
            build.wait()


def start(chosen: Sequence[str], results: Path) -> subprocess.Popen[bytes]:
    """Start `kbench run --quick` of solutions, one after the other."""
    solutions = [f"{HERE / 'solutions.py'}:{name}" for name in chosen]
    command = [sys.executable, "-m", "kbench", "run", str(HERE / "problem.py"), *solutions, "--quick"]
    return subprocess.Popen(
        [*command, "--device", "cuda", "--results", str(results)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def judge(groups: Sequence[Sequence[str]], scratch: Path) -> Iterator[dict[str, str]]:
    """Judge groups of solutions all at once, and yield the row of each verdict."""
    folders = [Path(tempfile.mkdtemp(dir=scratch)) for _ in groups]
    for child in [start(chosen, results) for chosen, results in zip(groups, folders, strict=True)]:
        child.wait()
    for chosen, results in zip(groups, folders, strict=True):
        files = [path for path in results.glob("*.csv") if not path.name.endswith(".samples.csv")]
        rows = [row for path in files for row in csv.DictReader(path.open())]
        found = {name: row for row in rows for name in chosen if name in {row["entry"], row["solution"].split(":")[-1]}}
        yield from ({"status": "no row", **found.get(name, {}), "solution": name} for name in chosen)


def line(label: str, row: dict[str, str], alone: dict[str, float]) -> dict[str, str]:
    """Return a line of the file."""
    time_ns, name = row.get("time_ns_median") or "", row["solution"]
    ratio = f"{float(time_ns) / alone[name]:.4f}" if time_ns and name in alone else ""
    t_us = f"{float(time_ns) / 1e3:.2f}" if time_ns else ""
    kept = {column: row.get(column, "") for column in COLUMNS}
    return {**kept, "round": label, "t_us": t_us, "ratio": ratio}


def write(path: Path, lines: Sequence[dict[str, str]]) -> None:
    """Write the lines so far: a run that is stopped leaves them."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(lines)


def main() -> int:
    """Judge alone, then at once, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        quiet = [*judge([names()], scratch)]
        alone = {row["solution"]: float(row["time_ns_median"]) for row in quiet if row.get("time_ns_median")}
        lines = [line("alone", row, alone) for row in quiet]
        several = [[name] for name in (names() * 2)[:AT_ONCE]]
        for number in range(given.rounds):
            with busy():
                lines += [line(str(number), row, alone) for row in judge(several, scratch)]
            write(given.out, lines)
    beside = [each for each in lines if each["round"] != "alone"]
    refused = [each for each in lines if each["status"] != "passed"]
    held = sum(each["attestation"] == "held" for each in beside)
    near = sum(abs(float(each["ratio"]) - 1) <= 0.03 for each in beside if each["ratio"])
    sys.stdout.write(
        f"{len(refused)} of {len(lines)} refused; beside builds {held} of {len(beside)} held, {near} within 3 %\n"
    )
    return bool(refused)


if __name__ == "__main__":
    sys.exit(main())
