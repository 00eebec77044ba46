"""Problems and solutions as texts: what a test is about, within what every file of either kind has; and as files."""

from collections.abc import Mapping
from pathlib import Path

from kbench.plugins import registry
from kbench.plugins.registry import Entry
from kbench.storage.settings import Settings


def problem_text(forward: str, inputs: str, *, head: str = "", init: str = "", takes: str = "") -> str:
    """A problem: the lines of `forward(self, x)`, the inputs as in `[...]`, and what comes before the class.

    `init` are the lines that make the layers of the constructor, which `takes` constants of the file.
    """
    made = f"\n\ndef get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return [{takes}]\n"
    return _module("Model", forward, head, init, takes) + made


def solution_text(forward: str, *, head: str = "", init: str = "", takes: str = "") -> str:
    """A solution, in the same words as a problem."""
    return _module("ModelNew", forward, head, init, takes)


def _module(name: str, forward: str, head: str, init: str, takes: str) -> str:
    arguments = f", {takes}" if takes else ""
    layers = f"    def __init__(self{arguments}):\n        super().__init__()\n        {init}\n\n" if init else ""
    return (
        f"import torch\nfrom torch import nn\n\n{head}\n\n\nclass {name}(nn.Module):\n"
        f"{layers}    def forward(self, x):\n        {forward}\n"
    )


def written(
    folder: Path, problem: str, solutions: Mapping[str, str], name: str = "problem"
) -> tuple[Entry, list[Entry]]:
    """Write a problem and its solutions by name into a folder, and find them there."""
    for stem, text in {name: problem, **solutions}.items():
        (folder / f"{stem}.py").write_text(text)
    found = registry.find_problem(folder / f"{name}.py", Settings())
    return found, [registry.find_solution(found, folder / f"{stem}.py", Settings()) for stem in solutions]
