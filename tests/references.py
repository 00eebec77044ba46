"""References of the judge, made from the body of their `forward`."""

from pathlib import Path
from typing import Any

import tiny_corpus

from kbench.judge.reference.reference import Reference


def reference(
    folder: Path, forward: str, inputs: str = "[torch.randn(3, 4)]", *, parameters: str = "x", **options: Any
) -> Reference:
    made = tiny_corpus.problem(forward, given=f"*{inputs}", inputs=parameters)
    return from_text(folder, made, **options)


def from_text(folder: Path, text: str, **options: Any) -> Reference:
    (folder / "problem.py").write_text(text)
    return Reference(folder / "problem.py", {}, "cpu", allow_tf32=False, **options)


def weighted(folder: Path, weight: str, function: str) -> Reference:
    layers = f"self.weight = nn.Parameter({weight})"
    return from_text(folder, tiny_corpus.problem(f"x * {function}", given="torch.randn(50)", layers=layers))
