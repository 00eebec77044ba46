"""Memory of a device that judging a case needs."""

CONTEXTS_BYTES = 3 << 30
"""Device contexts of the judge, both workers and the next one: chosen, 0.5 GB each and what libraries allocate."""
QUEUE_BYTES = 6 << 30
"""Memory of a small problem: queue, hidden copy and results, at most three times `arena.QUEUE_BUDGET_BYTES`."""
CASE_FACTOR = 3
"""Memory of a large problem in units of its inputs, outputs and parameters: measured, 2.5 for a softmax of 6.4 GB
(H100, KernelBench 1/23) and 2.7 for `group_norm` (H200, docs/adr/0001)."""
CALL_FACTOR = 4
"""Chosen. Calls whose steps lie on the device together: one of each worker, and the judge's fp64 model takes two."""


def needed_bytes(case_bytes: int, between_bytes: int = 0) -> int:
    """Return the device memory for judging a case whose inputs, outputs and parameters take `case_bytes`.

    `between_bytes` is the further memory of a call: results of steps, and workspaces of libraries.
    """
    return CONTEXTS_BYTES + max(QUEUE_BYTES, CASE_FACTOR * case_bytes + CALL_FACTOR * between_bytes)


def steps_take_most(between_bytes: int, memory_bytes: int | None) -> bool:
    """Return whether the steps of calls take more than half of a device's memory: the judge must then release its own.

    Otherwise an H100 has 8 of 80 GB left for `eager` of KernelBench 3/31, which takes 17.
    """
    return memory_bytes is not None and CALL_FACTOR * between_bytes > memory_bytes / 2
