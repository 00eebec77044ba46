"""kbench: is a GPU kernel right, how fast is it, and how far is it from the hardware's limit."""

from typing import TYPE_CHECKING, Any

from kbench.core.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from kbench.core.events import Judged

__all__ = ["__version__", "evaluate"]


def evaluate(
    problem: "str | Path", solution: "str | Path", *, entry: str | None = None, **options: Any
) -> "tuple[Judged, ...]":
    """Judge one solution of a problem from Python; returns one `Judged` record per case, as the CLI shows them.

    `problem` and `solution` are names or paths, `entry` is the class or function of the solution's file to judge in
    place of `ModelNew`; `options` are the fields of `kbench.core.events.RunOptions`
    (`device`, `cases`, `overrides`, `verify_only`, `processes`, `limits`, `save`, ...). Nothing is written unless
    `save=True`. A wrong or crashing solution is no exception: its record's `outcome` is a `Failed` with a status.

    >>> import kbench
    >>> (judged,) = kbench.evaluate("group_norm", "eager", device="cpu", cases=("small",), verify_only=True)
    >>> judged.outcome.correctness.contract_ratio <= 1
    True

    Raises:
        kbench.core.errors.KbenchError: an unknown name, a problem that cannot be run, or a missing device.
    """
    from kbench.core.events import Judged, RunOptions
    from kbench.plugins import registry
    from kbench.run.session import run
    from kbench.storage import settings

    known = settings.load()
    task = registry.find_problem(problem, known)
    candidate = registry.find_solution(task, solution, known, entry=entry)
    chosen = RunOptions(**{"save": False, **options})
    return tuple(event for event in run(task, (candidate,), chosen) if isinstance(event, Judged))
