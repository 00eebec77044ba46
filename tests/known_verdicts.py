"""Every file of a KernelBench checkout, with solutions whose verdict is known beforehand.

    git clone https://github.com/ScalingIntelligence/KernelBench
    python tests/known_verdicts.py KernelBench/KernelBench/level1 --folder /tmp/level1 --out /tmp/level1.csv --lanes 6

`eager` and the same arithmetic in fp64 have to pass. A result that was rounded to fp16, one that is zero, and one that
is computed from other inputs have to fail, wherever the reference's results are floating point and depend on its
inputs. All are one `kbench sweep --until verify`, and further options go to it (`--lanes 6`, `--case small`). The
folder keeps the sources and the sweep: after an interruption the same command continues.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas
from manifest_sweep import swept

COLUMNS = ("problem", "solution", "case", "status", "level", "lacks", "reason")
HONEST = ("eager", "fp64")
SOLUTION = """

import torch
from torch.utils._pytree import tree_map


def change(tree, how):
    return tree_map(lambda v: how(v) if isinstance(v, torch.Tensor) and v.is_floating_point() else v, tree)


class ModelNew(Model):
    inside = False

    def forward(self, *args):
        if self.inside:
            return super().forward(*args)
        self.inside = True
        try:
            return self.changed(args)
        finally:
            self.inside = False

    def changed(self, args):
        {body}
"""
BODIES = {
    "fp64": """state = change({**dict(self.named_parameters()), **dict(self.named_buffers())}, torch.Tensor.double)
        found = torch.func.functional_call(self, state, change(args, torch.Tensor.double))
        return change(found, torch.Tensor.float)""",
    "rounded": "return change(self.forward(*args), lambda v: v.half().float())",
    "zeros": "return change(self.forward(*args), torch.zeros_like)",
    "others": "return self.forward(*change(args, torch.rand_like))",
}


def write_manifest(problems: Sequence[Path], folder: Path) -> Path:
    """Write the solutions of each problem, and a sweep's manifest beside them; return its path."""
    lines = []
    for problem in problems:
        text = problem.read_text()
        files = {name: folder / f"{name}_{problem.name}" for name in BODIES}
        for name, path in files.items():
            path.write_text(text + SOLUTION.format(body=BODIES[name]))
        for name, solution in {"eager": "eager", **{name: str(path) for name, path in files.items()}}.items():
            line = {"problem": str(problem.absolute()), "solution": solution, "tags": [problem.stem, name]}
            lines.append(json.dumps(line))
    manifest = folder / "known.jsonl"
    manifest.write_text("".join(f"{line}\n" for line in lines))
    return manifest


def main() -> None:
    """Judge every file of a folder, print what is not as expected, and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", type=Path)
    parser.add_argument("--folder", type=Path, required=True, help="where the sources and the sweep are kept")
    parser.add_argument("--out", type=Path, required=True, help="the table")
    asked, rest = parser.parse_known_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    problems = sorted(asked.problems.glob("*.py"))
    found = swept(write_manifest(problems, asked.folder), ["--until", "verify", *rest])
    table = pandas.DataFrame(
        {**one, "problem": one["tags"][0], "solution": one["tags"][1], "lacks": " ".join(one["lacks"])} for one in found
    )
    table = table.sort_values([*COLUMNS[:3]])[[*COLUMNS]]
    table.to_csv(asked.out, index=False)
    unexpected = (table["status"] == "passed") != table["solution"].isin(HONEST)
    counts = table.value_counts(["solution", "status"]).sort_index()
    for shown in (table[unexpected], counts):
        sys.stdout.write(f"{shown.to_string(header=False)}\n" if len(shown) else "")
    sys.stdout.write(f"{len(table)} of {len(problems) * (1 + len(BODIES))}; the same command judges the rest\n")


if __name__ == "__main__":
    main()
