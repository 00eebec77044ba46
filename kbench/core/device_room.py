"""Memory of a device that judging a case needs."""

CALL_FACTOR = 4
"""Chosen. Calls whose steps lie on the device together: one of each worker, and the judge's fp64 model takes two."""


def steps_take_most(between_bytes: int, memory_bytes: int | None) -> bool:
    """Return whether the steps of calls take more than half of a device's memory: the judge must then release its own.

    Otherwise an H100 has 8 of 80 GB left for `eager` of KernelBench 3/31, which takes 17.
    """
    return memory_bytes is not None and CALL_FACTOR * between_bytes > memory_bytes / 2
