"""The kernels of CUDA-L1, each judged against the reference that it was written for.

    git clone https://github.com/deepreinforce-ai/CUDA-L1
    python tests/published.py CUDA-L1/optimized_cuda_code/h100.json --folder /tmp/published --out cuda_l1_h100.csv

All kernels are one `kbench sweep --quick --eval` at the default level: the archive checks both models in eval mode.
The kernels that do not pass are a second sweep at `--level task`. Further options (`--lanes 6`, `--devices cpu`) go to
both sweeps. The folder keeps the sources and both sweeps: after an interruption the same command continues.
`kbench report TABLE` makes a page of the table.
"""

import argparse
import ast
import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas
from manifest_sweep import swept

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = (
    *("task", "name", "claimed", "status", "default_status", "level", "lacks", "diagnosis"),
    *("speedup", "speedup_low", "speedup_high", "attestation", "flags", "time_ns", "ref_time_ns"),
    *("seconds", "task_seconds", "build_s", "reason", "default_reason"),
    *("source", "problem_sha256", "solution_sha256", "gpu", "kbench"),
)
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A published solution, and the problem beside it."""

    task: str
    claimed: float
    problem: str
    solution: str


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


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


def sweep(kernels: Sequence[Kernel], folder: Path, run: str, arguments: Sequence[str]) -> dict[str, Row]:
    """Judge kernels, or continue a sweep that was interrupted; return the verdicts by task."""
    write_manifest(kernels, folder / f"{run}.jsonl")
    found = swept(folder / f"{run}.jsonl", ["--quick", "--eval", *arguments])
    return {task: one for one in found for task in one["tags"]}


def judge(kernels: Sequence[Kernel], folder: Path, arguments: Sequence[str]) -> list[Row]:
    """Judge kernels at the default level, and those that do not pass at `task`; return the rows of the table."""
    at_default = sweep(kernels, folder, "default", arguments)
    rest = [one for one in kernels if at_default.get(one.task, {}).get("status", "passed") != "passed"]
    at_task = sweep(rest, folder, "task", ["--level", "task", *arguments]) if rest else {}
    last = {task: at_task.get(task, one) for task, one in at_default.items()}
    return [row(one, at_default[one.task], last[one.task], folder) for one in kernels if one.task in last]


def row(kernel: Kernel, at_default: Row, at_task: Row, folder: Path) -> Row:
    """Put two verdicts into one row; a kernel that passes at the default level has the same one twice."""
    passed = at_task["status"] == "passed"
    low, high = interval(at_task)
    values = {
        "task": kernel.task,
        "name": title(kernel.problem),
        "claimed": kernel.claimed,
        "status": at_task["status"],
        "default_status": at_default["status"],
        "level": at_default.get("level") or at_task.get("level") if passed else "",
        "lacks": " ".join(at_default["lacks"]) if passed else "",
        "diagnosis": next((one["diagnosis"]["code"] for one in (at_task, at_default) if one["diagnosis"]), ""),
        "speedup": at_task["speedup"],
        "speedup_low": low,
        "speedup_high": high,
        "attestation": at_task["attestation"],
        "flags": " ".join(at_task["flags"]),
        "time_ns": at_task["time_ns"],
        "ref_time_ns": at_task["reference_ns"],
        "seconds": round(sum(at_default["stage_s"].values()), 1),
        "task_seconds": "" if at_task is at_default else round(sum(at_task["stage_s"].values()), 1),
        "build_s": at_default["stage_s"].get("build"),
        "reason": one_line(at_task["reason"], folder),
        "default_reason": "" if at_task is at_default else one_line(at_default["reason"], folder),
        "problem_sha256": sha256(kernel.problem),
        "solution_sha256": sha256(kernel.solution),
        "gpu": (at_task["environment"] or {}).get("gpu_name", ""),
    }
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in values.items()}


def interval(judged: Row) -> tuple[float | None, float | None]:
    """Return the bounds of the speed-up: between processes, or from the noise of a single process."""
    speedup, noise = judged["speedup"], judged.get("noise")
    if judged.get("speedup_low") is not None or speedup is None or noise is None:
        return judged.get("speedup_low"), judged.get("speedup_high")
    return max(speedup * (1 - noise), 0.0), speedup * (1 + noise)


def one_line(reason: str | None, folder: Path) -> str:
    """Write a reason in one line, without the path of the folder."""
    return " ".join((reason or "").split()).replace(f"{folder.absolute()}/", "")


def write(path: Path, made: Sequence[Row], same: Mapping[str, str]) -> None:
    """Write the table in the order of the tasks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ordered = sorted(made, key=lambda one: [int(part) for part in one["task"].split("/")])
    rows = [{**one, **same} for one in ordered]
    pandas.DataFrame(rows, columns=COLUMNS, dtype=object).to_csv(path, index=False)


def revision(folder: Path = ROOT) -> str:
    """Return the commit of a checkout, if it is one."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude", "*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    """Judge kernels and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path, help="the file of JSON lines")
    parser.add_argument("--folder", type=Path, required=True, help="where the sources and both sweeps are kept")
    parser.add_argument("--out", type=Path, required=True, help="the table")
    given, rest = parser.parse_known_args()
    text = given.archive.read_text(encoding="utf-8")
    found = kernels(text)
    made = judge(found, given.folder, rest)
    write(given.out, made, {"source": f"sha256:{sha256(text)}", "kbench": revision()})
    sys.stderr.write(f"{len(made)} of {len(found)} kernels are judged; the same command judges the rest\n")


if __name__ == "__main__":
    main()
