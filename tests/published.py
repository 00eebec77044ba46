"""The kernels of CUDA-L1, each judged against the reference that it was written for.

    git clone https://github.com/deepreinforce-ai/CUDA-L1
    python tests/published.py CUDA-L1/optimized_cuda_code/h100.json --folder /tmp/published --out cuda_l1_h100.csv

All kernels are one `kbench sweep --quick --eval` at the default level: the archive checks both models in eval mode.
The kernels that do not pass are a second sweep at `--level task`. Further options (`--lanes 6`, `--devices cpu`) go to
both sweeps. The folder keeps the sources and both sweeps: after an interruption the same command continues.
"""

import argparse
import ast
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas
from manifest_sweep import swept


def kernels(archive: Path) -> dict[str, dict[str, Any]]:
    """Return by task the lines of an archive that have code."""
    lines = [json.loads(line) for line in archive.read_text(encoding="utf-8").splitlines() if line.strip()]
    coded = [line for line in lines if line["custom_code"] not in {None, "", "None"}]
    return {f"{line['level_id']}/{line['task_id']}": line for line in coded}


def entry(solution: str) -> str | None:
    """Return `Model` for a solution whose class is `Model` alone."""
    try:
        classes = {node.name for node in ast.parse(solution).body if isinstance(node, ast.ClassDef)}
    except SyntaxError:
        return None  # kbench says it better
    return "Model" if "Model" in classes and "ModelNew" not in classes else None


def sweep(chosen: dict[str, dict[str, Any]], folder: Path, run: str, arguments: Sequence[str]) -> pandas.DataFrame:
    """Judge kernels, or continue a sweep that was interrupted; return the verdicts by task."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for task, kernel in chosen.items():
        files = {"problem": kernel["ref_code"], "solution": kernel["custom_code"]}
        names = {kind: f"{kind}_{task.replace('/', '_')}.py" for kind in files}
        for kind, text in files.items():
            (folder / names[kind]).write_text(text, encoding="utf-8")
        claim = float(kernel["score_default"])
        lines.append(json.dumps({**names, "claim": claim, "tags": [task], "entry": entry(kernel["custom_code"])}))
    manifest = folder / f"{run}.jsonl"
    manifest.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    found = pandas.json_normalize(swept(manifest, ["--quick", "--eval", *arguments]))
    return found.set_index(found["tags"].str[0]) if len(found) else pandas.DataFrame({"status": []})


def judged(chosen: dict[str, dict[str, Any]], folder: Path, arguments: Sequence[str]) -> pandas.DataFrame:
    """Return the last verdict of each kernel: at the default level, or at `task` where that does not pass."""
    at_default = sweep(chosen, folder, "default", arguments)
    failed = at_default.index[at_default["status"] != "passed"]
    rest = {task: kernel for task, kernel in chosen.items() if task in failed}
    at_task = sweep(rest, folder, "task", ["--level", "task", *arguments]) if rest else at_default[:0]
    last = pandas.concat([at_default.drop(at_task.index), at_task])
    return last.join(at_default[["status", "level", "reason"]].add_prefix("default_"))


def main() -> None:
    """Judge kernels and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path, help="the file of JSON lines")
    parser.add_argument("--folder", type=Path, required=True, help="where the sources and both sweeps are kept")
    parser.add_argument("--out", type=Path, required=True, help="the table")
    given, rest = parser.parse_known_args()
    found = kernels(given.archive)
    table = judged(found, given.folder, rest).drop(columns=["log", "findings", "tags"], errors="ignore")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    table.rename_axis("task").rename(columns={"claim": "claimed"}).to_csv(given.out)
    sys.stderr.write(f"{len(table)} of {len(found)} kernels are judged; the same command judges the rest\n")


if __name__ == "__main__":
    main()
