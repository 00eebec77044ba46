"""One call from Python: judge one solution, or many, in a pool that ends with the call."""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from typing import Unpack

from kbench.api.evaluation import EvaluationResult
from kbench.api.judge import Judge, ProgressCallback, SourceLike
from kbench.api.options import Options


def evaluate(
    problem: SourceLike, solution: SourceLike, *, entry: str | None = None, **options: Unpack[Options]
) -> tuple[EvaluationResult, ...]:
    """Judge one solution of a problem; returns one EvaluationResult for each case.

    `problem` and `solution` are the text of a Python file (a string with a line break), a path, or a name as on the
    command line; `entry` is the class or function of the solution to judge instead of `ModelNew`. `options` are fields
    of `kbench.core.events.RunOptions` (`device`, `cases`, `overrides`, `verify_only`, `processes`, `limits`, `save`),
    with the defaults of `[tool.kbench]` in pyproject.toml. Nothing is written unless `save=True`. A wrong or crashing
    solution raises nothing: its `outcome` is a `Failed` with a status. Judges end with the call; a `kbench.Judge` keeps
    them.

    >>> import kbench
    >>> (found,) = kbench.evaluate("group_norm", "eager", device="cpu", cases="small", verify_only=True)
    >>> found.outcome.correctness.contract_ratio <= 1
    True

    Raises KbenchError: an unknown option or name, a problem that cannot be used, or a missing device.
    """
    with Judge(lanes=1, **options) as judge:
        return judge.evaluate(problem, solution, entry=entry)


def evaluate_many(
    candidates: Iterable[tuple[SourceLike, SourceLike]],
    *,
    entry: str | None = None,
    progress: ProgressCallback | None = None,
    **options: Unpack[Options],
) -> Iterator[EvaluationResult]:
    """Judge pairs of a problem and a solution in a new pool; yields each result as it comes, in any order.

    Like `Judge.evaluate_many`; the pool ends with the iterator. Options are checked before it returns.
    """
    judge = Judge(**options)

    def judged() -> Iterator[EvaluationResult]:
        with contextlib.closing(judge):
            yield from judge.evaluate_many(candidates, entry=entry, progress=progress)

    return judged()


async def evaluate_async(
    problem: SourceLike, solution: SourceLike, *, entry: str | None = None, **options: Unpack[Options]
) -> tuple[EvaluationResult, ...]:
    """Judge one solution without blocking the event loop. Judges end with the call, as for `evaluate`."""
    judge = await asyncio.to_thread(Judge, lanes=1, **options)
    try:
        return await judge.evaluate_async(problem, solution, entry=entry)
    finally:
        await asyncio.to_thread(judge.close)
