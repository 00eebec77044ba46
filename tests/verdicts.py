"""Problems and solutions as files, and what a run on a CPU finds of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.catalog import registry
from kbench.catalog.registry import Entry
from kbench.core.events import Judged, RunOptions
from kbench.engine.run import run
from kbench.storage.settings import Settings


def written(
    folder: Path, problem: str, solutions: Mapping[str, str], name: str = "problem"
) -> tuple[Entry, list[Entry]]:
    """Write a problem and its solutions by name into a folder, and find them there."""
    for stem, text in {name: problem, **solutions}.items():
        (folder / f"{stem}.py").write_text(text)
    return entries(folder / f"{name}.py", *(folder / f"{stem}.py" for stem in solutions))


def entries(problem: Path | str, *solutions: Path | str, entry: str = "") -> tuple[Entry, list[Entry]]:
    """Find a problem and solutions of it, by path or name; `entry` names a function or class of the solutions."""
    found = registry.find_problem(problem, Settings())
    named = {"entry": entry} if entry else {}
    return found, [registry.find_solution(found, one, Settings(), **named) for one in solutions]


def verdicts(problem: Entry, solutions: Sequence[Entry], **options: Any) -> dict[str, Judged]:
    """Return what is found of each solution; it verifies beside others, saves nothing, if `options` say no more."""
    chosen = RunOptions(**{"device": "cpu", "verify_only": True, "save": False, "wait_for_device": False, **options})
    return {event.solution: event for event in run(problem, solutions, chosen) if isinstance(event, Judged)}
