"""Kernels that others published, each judged against the reference that it was written for.

    git clone https://github.com/deepreinforce-ai/CUDA-L1
    python tests/published.py CUDA-L1 --folder /tmp/published --out results/published/cuda_l1_h100.csv
    python tests/published.py --table results/published/cuda_l1_h100.csv

All kernels of the H100 file are one `kbench sweep --quick --eval` at the default level: the archive checks both models
in eval mode. Those that do not pass are a second one at `--level task`. What else is given (`--lanes 6`,
`--devices cpu`) is handed on to both.

The folder keeps the sources and both sweeps. `--until SECONDS` ends the whole in time; the same command goes on where
it ended. `--only 2/18,2/30` and `--every N` take some; what the table holds of others stays. `--table` writes the
summary into the README.md beside the table.
"""

import argparse
import ast
import csv
import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
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
SHARE_AT_DEFAULT = 0.8
"""Chosen. Of a limited time, what the sweep at the default level has at most."""
LEAST_S = 15.0
"""Of the second sweep: what it takes to tell what it knows."""
TO_END_S = 30.0
"""For what a sweep does when it is told to end."""
LEVELS = {"default": [], "task": ["--level", "task"]}
"""By sweep, the options that tell it from the other one."""


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


def entry(solution: str) -> str | None:
    """Return `Model` for a solution whose class is `Model` alone."""
    try:
        classes = {node.name for node in ast.parse(solution).body if isinstance(node, ast.ClassDef)}
    except SyntaxError:
        return None  # kbench says it better
    return "Model" if "Model" in classes and "ModelNew" not in classes else None


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


def write_manifest(kernels: Sequence[Kernel], path: Path) -> None:
    """Write a sweep's manifest, and the sources beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for kernel in kernels:
        name = kernel.task.replace("/", "_")
        files = {f"problem_{name}.py": kernel.problem, f"published_{name}.py": kernel.solution}
        for file, text in files.items():
            path.with_name(file).write_text(text, encoding="utf-8")
        problem, solution = files
        line = {"problem": problem, "solution": solution, "claim": kernel.claimed, "tags": [kernel.task]}
        lines.append(json.dumps({**line, "entry": entry(kernel.solution)}))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def sweep(
    kernels: Sequence[Kernel], folder: Path, run: str, arguments: Sequence[str], limit_s: float
) -> dict[str, Row]:
    """Judge kernels, or go on; return the verdicts that there are by task. The sweep is interrupted after its limit."""
    write_manifest(kernels, folder / f"{run}.jsonl")
    results = folder / "results"
    begun = (results / f"{run}.journal.jsonl").exists()
    what = ["--resume", run] if begun else [f"{folder / run}.jsonl", "--name", run, "--quick", "--eval", *LEVELS[run]]
    command = [sys.executable, "-m", "kbench", "sweep", *what, "--results", str(results), "--json", *arguments]
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    process = subprocess.Popen(command, env=where, stdout=subprocess.PIPE, text=True)
    try:
        out, _ = process.communicate(timeout=None if limit_s == math.inf else limit_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=TO_END_S)
    told = json.loads(out)
    if not told["results"] and told["reason"]:
        raise SystemExit(f"the sweep {run} judged nothing: {told['reason']}")
    return {task: one for one in told["results"] for task in one["tags"]}


def judge(
    kernels: Sequence[Kernel], folder: Path, arguments: Sequence[str], until_s: float
) -> tuple[dict[str, Row], dict[str, Row]]:
    """Judge kernels at the default level, and at `task` what does not pass there; return both by task."""
    deadline = time.monotonic() + until_s
    at_default = sweep(kernels, folder, "default", arguments, until_s * SHARE_AT_DEFAULT)
    rest = [one for one in kernels if one.task in at_default and at_default[one.task]["status"] != "passed"]
    left_s = max(deadline - time.monotonic(), LEAST_S)
    at_task = sweep(rest, folder, "task", arguments, left_s) if rest else {}
    return at_default, at_task


def rows(
    kernels: Sequence[Kernel], at_default: Mapping[str, Row], at_task: Mapping[str, Row], folder: Path, same: Row
) -> list[Row]:
    """Return the rows of the kernels that have both of their verdicts; one that passes needs no second."""
    default = {task: without(folder, one) for task, one in at_default.items()}
    passed = {task: one for task, one in default.items() if one["status"] == "passed"}
    last = {**{task: without(folder, one) for task, one in at_task.items()}, **passed}
    both = [kernel for kernel in kernels if kernel.task in default and kernel.task in last]
    return [{**row(kernel, default[kernel.task], last[kernel.task]), **same} for kernel in both]


def without(folder: Path, judged: Row) -> Row:
    """Write a reason in one line, and leave a folder of ours out of it."""
    reason = " ".join(str(judged.get("reason") or "").split())
    return {**judged, "reason": reason.replace(f"{folder.absolute()}/", "")}


def row(kernel: Kernel, at_default: Row, at_task: Row) -> Row:
    """Put two verdicts into one row; they are the same one for a kernel that passes at the default level."""
    passed, held = at_task["status"] == "passed", at_default.get("level") or at_task.get("level")
    low, high = interval(at_task)
    problem, solution = kernel.hashes
    stages = at_default["stage_s"]
    return {
        "task": kernel.task,
        "name": title(kernel.problem),
        "claimed": kernel.claimed,
        "status": at_task["status"],
        "default_status": at_default["status"],
        "level": (held or "") if passed else "",
        "lacks": " ".join(at_default["lacks"]) if passed else "",
        "diagnosis": next((one["diagnosis"]["code"] for one in (at_task, at_default) if one["diagnosis"]), ""),
        "speedup": told_or_empty(at_task["speedup"]),
        "speedup_low": told_or_empty(low),
        "speedup_high": told_or_empty(high),
        "attestation": at_task["attestation"],
        "flags": " ".join(at_task["flags"]),
        "time_ns": told_or_empty(at_task["time_ns"]),
        "ref_time_ns": told_or_empty(at_task["reference_ns"]),
        "seconds": round(sum(stages.values()), 1),
        "task_seconds": "" if at_task is at_default else round(sum(at_task["stage_s"].values()), 1),
        "build_s": told_or_empty(stages.get("build")),
        "reason": at_task["reason"],
        "default_reason": "" if at_default["reason"] == at_task["reason"] else at_default["reason"],
        "problem_sha256": problem,
        "solution_sha256": solution,
        "gpu": (at_task["environment"] or {}).get("gpu_name", ""),
    }


def told_or_empty(value: float | None) -> float | str:
    return "" if value is None else round(value, 6)


def interval(judged: Row) -> tuple[float | None, float | None]:
    """Return what the speed-up is within: over processes, or of one process what its noise allows."""
    speedup, noise = judged.get("speedup"), judged.get("noise")
    if judged.get("speedup_low") is not None or speedup is None or noise is None:
        return judged.get("speedup_low"), judged.get("speedup_high")
    return max(speedup * (1 - noise), 0.0), speedup * (1 + noise)


def write(path: Path, made: Sequence[Row]) -> None:
    """Write the table in the order of the tasks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(made, key=place))


def kept(path: Path, made: Sequence[Row]) -> list[Row]:
    """Return the rows of a table whose kernels were not judged again."""
    again = {one["task"] for one in made}
    return [one for one in load(path) if one["task"] not in again] if path.exists() else []


def load(path: Path) -> list[Row]:
    """Read a table."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def place(row: Row) -> tuple[int, ...]:
    return tuple(int(part) for part in row["task"].split("/"))


def summary(rows: Sequence[Row]) -> str:
    """Write what the table shows, as Markdown."""
    if not rows:
        return "Nothing was judged yet."
    passed = [one for one in rows if one["status"] == "passed"]
    refused = [one for one in rows if one["status"] != "passed"]
    below = [one for one in passed if one["default_status"] != "passed"]
    sources = ", ".join(sorted({one["source"].partition("@")[0] for one in rows}))
    machines = ", ".join(sorted({one["gpu"] for one in rows if one["gpu"]}))
    broken = sum("harness_error" in {one["status"], one["default_status"]} for one in rows)
    first = (
        f"{len(rows)} kernels of {sources}, on {machines or 'no device'}: {len(passed)} do the task, "
        f"{len(passed) - len(below)} pass at the default level, {broken} ended as `harness_error`."
    )
    parts = [
        first,
        counted("Status at `task`", [one["status"] for one in rows]),
        counted("Level held", [one["level"] for one in passed] + ["none"] * len(refused)),
        counted("Lacks", [code for one in passed for code in one["lacks"].split()]),
        speeds(passed),
    ]
    return "\n\n".join(part for part in parts if part)


def counted(title: str, values: Sequence[str]) -> str:
    """Write how often each value occurs, in one line."""
    counts = ", ".join(f"{count} `{value}`" for value, count in Counter(values).most_common())
    return f"{title}: {counts}." if counts else ""


def speeds(passed: Sequence[Row]) -> str:
    """Write claimed against measured speed-ups, of those that were timed."""
    trivial = [one for one in passed if "trivial_passes" in (one["flags"] or "").split()]
    timed = [one for one in passed if one["speedup"] not in {"", None} and one not in trivial]
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
    if trivial:
        text += f" {len(trivial)} are not in this table, because wrong answers pass these tasks too (`trivial_passes`)."
    return "\n".join([*lines, "", text])


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


def main() -> None:
    """Judge kernels and write the table, or write a table's summary into the page beside it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", nargs="?", type=Path, help="the file, or a clone of its repository")
    parser.add_argument("--folder", type=Path, help="where the sources and both sweeps are kept")
    parser.add_argument("--out", type=Path, help="the table")
    parser.add_argument("--only", default="", help="tasks, with commas between")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--until", type=float, default=math.inf, help="seconds for everything")
    parser.add_argument("--revision", default=None, help="kbench's commit, where this folder is no checkout")
    parser.add_argument("--table", type=Path, help="write the summary of this table, and judge nothing")
    given, rest = parser.parse_known_args()
    if given.table is not None:
        page = given.table.with_name("README.md")
        page.write_text(fill(page.read_text(encoding="utf-8"), summary(load(given.table))), encoding="utf-8")
        return
    if given.place is None or given.folder is None or given.out is None:
        parser.error("a file or repository, --folder and --out are required")
    found, source = read(given.place)
    wanted = choose(found, given.only, given.every)
    at_default, at_task = judge(wanted, given.folder, rest, given.until)
    made = rows(wanted, at_default, at_task, given.folder, {"source": source, "kbench": given.revision or revision()})
    write(given.out, [*kept(given.out, made), *made])
    print(summary(made))  # noqa: T201 - what the script is for
    if len(made) < len(wanted):
        sys.stderr.write(f"{len(wanted) - len(made)} kernels are not judged yet: the same command goes on\n")


if __name__ == "__main__":
    main()
