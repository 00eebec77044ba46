"""Kernels that others published, each judged against the reference that it was written for.

    git clone https://github.com/deepreinforce-ai/CUDA-L1
    python tests/published.py CUDA-L1 --lanes 4 --out results/published/cuda_l1_h100.csv
    python tests/published.py --table results/published/cuda_l1_h100.csv

Each kernel of the H100 file is one `kbench run --quick --eval` at the default level: the archive checks both models
in eval mode. One that does not pass is run again at `--level task`. What else is given (`--device cpu`) is
handed on to both.

A kernel's row is appended to the table when it is finished. `--until SECONDS` ends the whole in time; the same command
with `--resume` does the rest. `--only 2/18,2/30` and `--every N` take some; with `--resume`, those of `--only` are
judged again, and the last row of a kernel counts. `--table` writes the summary into the README.md beside the table.
"""

import argparse
import ast
import csv
import functools
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from one_run import ROOT, ask, verdict

REPOSITORY = "deepreinforce-ai/CUDA-L1"
FILE = "optimized_cuda_code/h100.json"
KNOWN = {"bb3c6f83ca3502d4ff53512163e14171f09b1124c35d2134dfd43576baefe57e": "51e8356bf844101cab2aeeca4bdff47ebb1953b8"}
"""By SHA-256 of the file, the commit that it is of."""

COLUMNS = (
    *("task", "name", "claimed", "status", "default_status", "level", "lacks", "diagnosis"),
    *("speedup", "speedup_low", "speedup_high", "attestation", "flags", "time_ns", "ref_time_ns"),
    *("seconds", "task_seconds", "build_s", "reason", "default_reason"),
    *("source", "problem_sha256", "solution_sha256", "gpu", "kbench"),
)
Row = dict[str, Any]
MARKS = ("<!-- written by `tests/published.py --table`, do not edit -->", "<!-- end of what is written -->")
LEAST_S = 10.0
"""No kernel is begun with less time left."""
MOST_SHOWN = 200
"""Letters of a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A published solution, and the problem beside it."""

    task: str
    claimed: float
    problem: str
    solution: str

    @property
    def hashes(self) -> tuple[str, str]:
        """SHA-256 of both texts."""
        return sha256(self.problem), sha256(self.solution)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def read(place: Path) -> tuple[list[Kernel], str]:
    """Return all kernels of the file, or of the checkout or bare repository, and where they are from."""
    if place.is_dir() and not (place / FILE).is_file():
        shown = subprocess.run(["git", "-C", str(place), "show", f"HEAD:{FILE}"], capture_output=True, check=True)
        text = shown.stdout.decode()
    else:
        text = (place / FILE if place.is_dir() else place).read_text(encoding="utf-8")
    found = sha256(text)
    return kernels(text), f"{REPOSITORY}@{KNOWN[found]}" if found in KNOWN else f"sha256:{found}"


def kernels(text: str) -> list[Kernel]:
    """Return the kernels of a file of JSON lines, without those that have no code."""
    lines = [json.loads(line) for line in text.splitlines() if line.strip()]
    return [
        Kernel(
            task=f"{line['level_id']}/{line['task_id']}",
            claimed=float(line["score_default"]),
            problem=line["ref_code"],
            solution=line["custom_code"],
        )
        for line in lines
        if line["custom_code"] not in {None, "", "None"}
    ]


def entry(solution: str) -> list[str]:
    """Return what kbench must be told for a solution whose class is `Model` alone."""
    try:
        classes = {node.name for node in ast.parse(solution).body if isinstance(node, ast.ClassDef)}
    except SyntaxError:
        return []  # kbench says it better
    return ["--entry", "Model"] if "Model" in classes and "ModelNew" not in classes else []


def title(problem: str) -> str:
    """Return the first line that documents a problem, without a full stop."""
    try:
        tree = ast.parse(problem)
    except SyntaxError:
        return ""
    models = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Model"]
    documented = (ast.get_docstring(node) for node in (tree, *models))
    text = next((text.strip() for text in documented if text and text.strip()), "")
    return text.splitlines()[0].rstrip(" .:") if text else ""


def judge(kernel: Kernel, deadline: float, *, arguments: Sequence[str], levels: bool, limit_s: float) -> Row:
    """Judge one kernel at the default level and, if it does not pass there, at `task`."""

    def left_s() -> float:
        return max(min(limit_s, deadline - time.monotonic()), 1.0)

    with tempfile.TemporaryDirectory(prefix="kbench-published-") as folder:
        name = kernel.task.replace("/", "_")
        problem, solution = Path(folder, f"problem_{name}.py"), Path(folder, f"published_{name}.py")
        problem.write_text(kernel.problem, encoding="utf-8")
        solution.write_text(kernel.solution, encoding="utf-8")
        run = [str(problem), str(solution), "--eval", *entry(kernel.solution), *arguments]
        told, seconds = ask(run, left_s())
        at_default = at_task = without(folder, verdict(told))
        task_seconds: float | str = ""
        if levels and at_default["status"] != "passed":
            told, task_seconds = ask([*run, "--level", "task"], left_s())
            at_task = without(folder, verdict(told))
    return row(kernel, at_default, at_task, seconds, task_seconds)


def without(folder: str, judged: Row) -> Row:
    """Leave a folder of ours out of a reason."""
    return {**judged, "reason": judged["reason"].replace(f"{folder}/", "")}


def row(kernel: Kernel, at_default: Row, at_task: Row, seconds: float, task_seconds: float | str) -> Row:
    """Put what two runs say into one row; they are the same one for a kernel that passes at the default level."""
    passed, held = at_task["status"] == "passed", at_default.get("level") or at_task.get("level")
    low, high = interval(at_task)
    problem, solution = kernel.hashes
    return {
        "task": kernel.task,
        "name": title(kernel.problem),
        "claimed": kernel.claimed,
        "status": at_task["status"],
        "default_status": at_default["status"],
        "level": (held or "") if passed else "",
        "lacks": " ".join(at_default.get("lacks") or ()) if passed else "",
        "diagnosis": next((one["diagnosis"]["code"] for one in (at_task, at_default) if one.get("diagnosis")), ""),
        "speedup": told_or_empty(at_task.get("speedup")),
        "speedup_low": told_or_empty(low),
        "speedup_high": told_or_empty(high),
        "attestation": at_task.get("attestation", ""),
        "flags": " ".join(at_task.get("flags") or ()),
        "time_ns": told_or_empty(at_task.get("time_ns")),
        "ref_time_ns": told_or_empty(at_task.get("reference_ns")),
        "seconds": seconds,
        "task_seconds": task_seconds,
        "build_s": told_or_empty((at_default.get("stage_s") or {}).get("build")),
        "reason": at_task["reason"],
        "default_reason": "" if at_default["reason"] == at_task["reason"] else at_default["reason"],
        "problem_sha256": problem,
        "solution_sha256": solution,
        "gpu": at_task["row"].get("gpu_name", ""),
    }


def told_or_empty(value: float | None) -> float | str:
    return "" if value is None else round(value, 6)


def interval(judged: Row) -> tuple[float | None, float | None]:
    """Return what the speed-up is within: over processes, or of one process what its noise allows."""
    speedup, noise = judged.get("speedup"), judged.get("noise")
    if judged.get("speedup_low") is not None or speedup is None or noise is None:
        return judged.get("speedup_low"), judged.get("speedup_high")
    return max(speedup * (1 - noise), 0.0), speedup * (1 + noise)


class Table:
    """The rows on the disk, the last one of each kernel."""

    def __init__(self, path: Path, *, resume: bool):
        self.path = path
        self.rows = {one["task"]: one for one in load(path)} if resume and path.exists() else {}
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self.write()

    def append(self, row: Row) -> None:
        """Add a row; it is on the disk afterwards."""
        with self._lock, self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(row)
            self.rows[row["task"]] = row

    def write(self) -> None:
        """Write everything anew, in the order of the tasks."""
        fresh = self.path.with_suffix(".new")
        with self._lock, fresh.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(sorted(self.rows.values(), key=place))
        fresh.replace(self.path)

    def has(self, kernel: Kernel) -> bool:
        """Say whether there is a row of this very kernel."""
        found = self.rows.get(kernel.task, {})
        return (found.get("problem_sha256"), found.get("solution_sha256")) == kernel.hashes


def load(path: Path) -> list[Row]:
    """Read a table; the last row of a kernel counts."""
    with path.open(newline="", encoding="utf-8") as file:
        return sorted({one["task"]: one for one in csv.DictReader(file)}.values(), key=place)


def place(row: Row) -> tuple[int, ...]:
    return tuple(int(part) for part in row["task"].split("/"))


def judge_all(
    wanted: Iterable[Kernel], table: Table, lanes: int, until_s: float, judging: Callable[[Kernel, float], Row]
) -> None:
    """Judge kernels in lanes; one that the time does not suffice for is left out."""
    deadline = time.monotonic() + until_s

    def one(kernel: Kernel) -> None:
        if deadline - time.monotonic() < LEAST_S:
            return
        found = judging(kernel, deadline)
        if time.monotonic() < deadline:
            table.append(found)
            sys.stderr.write(f"{kernel.task}: {found['status']} {found['level']} {found['reason'][:MOST_SHOWN]}\n")

    with ThreadPoolExecutor(lanes) as pool:
        list(pool.map(one, wanted))


def summary(rows: Sequence[Row]) -> str:
    """Write what the table shows, as Markdown."""
    if not rows:
        return "Nothing was judged yet."
    passed = [one for one in rows if one["status"] == "passed"]
    refused = [one for one in rows if one["status"] != "passed"]
    below = [one for one in passed if one["default_status"] != "passed"]
    sources = ", ".join(sorted({one["source"] for one in rows}))
    machines = ", ".join(sorted({one["gpu"] for one in rows if one["gpu"]}))
    versions = ", ".join(sorted({one["kbench"] for one in rows if one["kbench"]}))
    broken = sum("harness_error" in {one["status"], one["default_status"]} for one in rows)
    first = (
        f"{len(rows)} kernels of {sources}, on {machines or 'no device'}, by kbench {versions or '?'}: {len(passed)} "
        f"do the task, {len(passed) - len(below)} pass at the default level, {broken} ended as `harness_error`."
    )
    parts = [
        first,
        counted("status at `task`", [one["status"] for one in rows]),
        counted("level held", [one["level"] or "none is told" for one in passed] + ["none: refused"] * len(refused)),
        counted("lacks", [code for one in passed for code in one["lacks"].split()]),
        speeds(passed),
        refusals("status at `task`", "status", "reason", refused),
        refusals("does the task, status at the default level", "default_status", "default_reason", below),
    ]
    return "\n\n".join(part for part in parts if part)


def counted(title: str, values: Sequence[str]) -> str:
    """Write how often each value occurs."""
    lines = [f"| {value} | {count} |" for value, count in Counter(values).most_common()]
    return "\n".join([f"| {title} | kernels |", "|---|---:|", *lines]) if lines else ""


def speeds(passed: Sequence[Row]) -> str:
    """Write claimed against measured speed-ups, of those that were timed."""
    timed = [one for one in passed if one["speedup"] not in {"", None}]
    if not timed:
        return ""
    held = [one for one in timed if one["attestation"] == "held"]
    lines = ["| speed-up of those that do the task | kernels | claimed | measured | median claimed | median measured |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for title, some in (("all", timed), ("`held` by the judge's clock", held)):
        if some:
            told = [[float(one[column]) for one in some] for column in ("claimed", "speedup")]
            means = " | ".join(f"{mean(values):.3f}×" for mean in (geometric_mean, median) for values in told)
            lines.append(f"| {title} | {len(some)} | {means} |")
    slower = sum(float(one["speedup_high"] or one["speedup"]) < 1 for one in timed)
    below = sum(float(one["speedup_high"] or one["speedup"]) < float(one["claimed"]) for one in timed)
    text = (
        f"Means are geometric. {len(held)} of {len(timed)} are `held`; with their whole interval, {below} are below "
        f"their claim and {slower} slower than the reference."
    )
    return "\n".join([*lines, "", text])


def refusals(title: str, status: str, reason: str, rows: Sequence[Row]) -> str:
    """Write one line for each refused kernel."""
    lines = [
        f"| {one['task']} | {float(one['claimed']):.2f}× | {one[status]} | {one['diagnosis']} | {cell(one[reason])} |"
        for one in sorted(rows, key=lambda one: (one[status], one["diagnosis"], place(one)))
    ]
    head = [f"| kernel | claimed | {title} | diagnosis | reason |", "|---|---:|---|---|---|"]
    return "\n".join([*head, *lines]) if lines else ""


def cell(text: str) -> str:
    """Write a reason so that it stays within its cell."""
    shown = text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"
    return shown.replace("|", "\\|").replace("<", "&lt;")


def fill(page: str, text: str) -> str:
    """Put a text between the marks of a page."""
    before, _, rest = page.partition(MARKS[0])
    _, mark, after = rest.partition(MARKS[1])
    if not mark:
        raise SystemExit(f"the page lacks its marks: {MARKS[0]} and {MARKS[1]}")
    return f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}"


def choose(found: Sequence[Kernel], only: str, every: int) -> list[Kernel]:
    """Return the kernels that are asked for."""
    names = [name for name in only.split(",") if name]
    unknown = sorted(set(names) - {one.task for one in found})
    if unknown:
        raise SystemExit(f"no kernel {', '.join(unknown)}")
    return [one for one in found if not names or one.task in names][::every]


def revision() -> str:
    """Return the commit of this checkout, if there is one."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude", "*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def knows_levels() -> bool:
    """Say whether this kbench has `--level`."""
    command = [sys.executable, "-m", "kbench", "run", "--help"]
    where = {**os.environ, "PYTHONPATH": str(ROOT)}
    return "--level" in subprocess.run(command, capture_output=True, text=True, check=True, env=where).stdout


def main() -> None:
    """Judge kernels and write the table, or write a table's summary into the page beside it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", nargs="?", type=Path, help="the file, or a clone of its repository")
    parser.add_argument("--out", type=Path, help="the table")
    parser.add_argument("--resume", action="store_true", help="keep the rows that the table has")
    parser.add_argument("--only", default="", help="tasks, with commas between")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--until", type=float, default=float("inf"), help="seconds for everything")
    parser.add_argument("--limit", type=float, default=400.0, help="seconds for one run of kbench")
    parser.add_argument("--revision", default=None, help="kbench's commit, where this folder is no checkout")
    parser.add_argument("--table", type=Path, help="write the summary of this table, and judge nothing")
    given, rest = parser.parse_known_args()
    if given.table is not None:
        page = given.table.with_name("README.md")
        page.write_text(fill(page.read_text(encoding="utf-8"), summary(load(given.table))), encoding="utf-8")
        return
    if given.place is None or given.out is None:
        parser.error("a file or folder, and --out, are required")
    found, source = read(given.place)
    same: Row = {"source": source, "kbench": given.revision or revision()}
    table = Table(given.out, resume=given.resume)
    wanted = choose(found, given.only, given.every)
    left = [one for one in wanted if given.only or not table.has(one)]
    run = functools.partial(judge, arguments=rest, levels=knows_levels(), limit_s=given.limit)

    def judging(kernel: Kernel, deadline: float) -> Row:
        return {**run(kernel, deadline), **same}

    judge_all(left, table, given.lanes, given.until, judging)
    table.write()
    shown = summary(list(table.rows.values()))
    print(shown)  # noqa: T201 - what the script is for
    missing = sum(not table.has(one) for one in wanted)
    if missing:
        sys.stderr.write(f"{missing} kernels are not judged yet: the same command with --resume goes on\n")


if __name__ == "__main__":
    main()
