"""The optional check that a row has the same bits in every batch: sums whose order follows the batch size do not.

Inference that must repeat, and training on what an inference engine sampled, need it (He et al., "Defeating
Nondeterminism in LLM Inference", Thinking Machines, 2025).
"""

import secrets
from typing import Any

from torch import Tensor

from kbench.catalog.containers import over_leaves
from kbench.core.model import Status
from kbench.judge.arena import Arena
from kbench.judge.exchange import Trial
from kbench.judge.reference.expected import Expected, unlike
from kbench.judge.refusal import RefusalError
from kbench.judge.verify.battery import Battery
from kbench.numerics import elements


def batch_invariant(battery: Battery, trial: Trial) -> bool:
    """Compare rows of a whole batch with the same rows in smaller batches; return False if inputs have no rows.

    Rows are the entries of the first dimension, if every output has as many of them and the reference computes each
    from the same rows of the inputs. Raises RefusalError where one bit differs.
    """
    reference = trial.reference
    whole = reference.expect(reference.arguments())
    count = row_count(whole)
    reply = trial.call([whole])
    trial.judge_values(reply.slots[0], whole)
    parts = smaller_batches(count)
    kept = [[t[rows].clone() for t in trial.arena.outputs(reply.slots[0])] for rows in parts]
    trial.take_back()
    arguments = [*whole.recalled()]
    for rows, of_whole in zip(parts, kept, strict=True):
        part = reference.try_expect(rows_of(arguments, count, rows), any_shape=True)
        if isinstance(part, Exception) or any(map(unlike, part.tensors, (t[rows] for t in whole.tensors))):
            break
        state = [t for _, t in reference.state()]
        with trial.beside(Arena(part, state, reference.device, slots=1)) as other:
            slot = other.call([part]).slots[0]
            other.judge_values(slot, part)
            require_same_bits(rows, count, of_whole, other.arena.outputs(slot), trial.candidate.log)
    else:
        if parts:
            return True
    battery.note("skipped_batches", "skipped batches of other sizes: outputs are not computed row by row from inputs")
    return False


def row_count(expected: Expected) -> int:
    """Return the length of the outputs' first dimension; 0 if they differ in it."""
    counts = {t.shape[0] if t.dim() else 0 for t in expected.tensors}
    return counts.pop() if len(counts) == 1 else 0


def smaller_batches(count: int) -> list[slice]:
    """Return one row and about half of the rows, at random places; nothing for fewer than two rows."""
    return [
        slice(start, start + size)
        for size in dict.fromkeys((1, (count + 1) // 2))
        if size < count
        for start in [secrets.randbelow(count - size + 1)]
    ]


def rows_of(arguments: list[Any], count: int, rows: slice) -> list[Any]:
    """Return arguments with some of the rows of every tensor that has `count` of them."""

    def some(leaf: Any) -> Any:
        has_rows = isinstance(leaf, Tensor) and leaf.dim() > 0 and leaf.shape[0] == count
        return leaf[rows].clone() if has_rows else leaf

    found: list[Any] = over_leaves(arguments, some)
    return found


def require_same_bits(rows: slice, count: int, whole: list[Tensor], part: list[Tensor], log: str) -> None:
    """Raise RefusalError if an output differs in a bit between the whole batch and a smaller one."""
    for number, (one, other) in enumerate(zip(whole, part, strict=True)):
        if not elements.same_bits(one, other):
            size, differ = rows.stop - rows.start, int((one != other).sum())
            batch = f"row {rows.start} alone" if size == 1 else f"{size} rows alone"
            reason = f"output {number}: {batch} differs from the same in the batch of {count}, in {differ:,} elements"
            raise RefusalError(Status.WRONG_VALUE, f"{reason} of {one.numel():,}", log)
