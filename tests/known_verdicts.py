"""Every file of a KernelBench checkout, with solutions whose verdict is known beforehand.

    git clone https://github.com/ScalingIntelligence/KernelBench
    python tests/known_verdicts.py KernelBench/KernelBench/level1 --device cpu --out /tmp/level1.csv
    python tests/known_verdicts.py KernelBench/KernelBench/level2 --device cuda --out /tmp/level2.csv    at full size

`eager` and the same arithmetic in fp64 have to pass. A result that was rounded to fp16, one that is zero, and one that
is computed from other inputs have to fail, wherever the reference's results are floating point and depend on its
inputs. On a CPU the constants are those of the smallest shape that kbench derives (docs/adr/0007-levels.md).
"""

import argparse
import csv
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kbench.catalog import registry, shapes
from kbench.core.errors import KbenchError
from kbench.core.events import Judged, RunOptions
from kbench.core.model import Passed
from kbench.engine import run as running
from kbench.storage.settings import Settings

COLUMNS = ("problem", "solution", "status", "contract", "oracle_ratio", "findings", "reason")
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


def judge(path: Path, folder: Path, options: RunOptions) -> Iterator[Judged]:
    """Judge all solutions of one problem file."""
    settings = Settings()
    problem = registry.find_problem(path, settings)
    solutions = [registry.find_solution(problem, "eager", settings)]
    for name, body in BODIES.items():
        target = folder / f"{name}.py"
        target.write_text(path.read_text() + SOLUTION.format(body=body))
        solutions.append(registry.find_solution(problem, target, settings))
    for event in running.run(problem, tuple(solutions), options):
        if isinstance(event, Judged):
            yield event


def options_for(path: Path, device: str) -> RunOptions:
    """Make the options of a run that verifies; on a CPU, of the smallest derived shape."""
    derived = shapes.derive(path, {}).cases if device == "cpu" else []
    return RunOptions(
        device=device,
        overrides=derived[-1] if derived else {},
        verify_only=True,
        timeout_s=240,
        save=False,
    )


def cells(path: Path, judged: Judged) -> list[str]:
    """Make one line of the CSV."""
    outcome = judged.outcome
    passed = isinstance(outcome, Passed)
    found = outcome.correctness
    return [
        path.stem,
        judged.solution,
        "passed" if passed else outcome.status.value,
        found.contract if found else "",
        "" if found is None or found.oracle_ratio is None else f"{found.oracle_ratio:.3g}",
        " ".join(finding.code for finding in outcome.findings),
        "" if passed else outcome.reason,
    ]


def main() -> None:
    """Judge every file of a folder, and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as scratch, asked.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for path in sorted(asked.folder.glob("*.py")):
            try:
                for judged in judge(path, Path(scratch), options_for(path, asked.device)):
                    line = cells(path, judged)
                    writer.writerow(line)
                    counts[judged.solution, line[2]] += 1
                    if (line[2] == "passed") != (judged.solution in HONEST):
                        sys.stdout.write("  ".join(line) + "\n")
            except KbenchError as error:
                sys.stdout.write(f"{path.stem}  {error.message}\n")
            file.flush()
    for (solution, status), count in sorted(counts.items()):
        sys.stdout.write(f"{solution:<8} {status:<16} {count}\n")


if __name__ == "__main__":
    main()
