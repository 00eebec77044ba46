"""Device memory that a call of the reference takes beside inputs, parameters and outputs."""

from collections.abc import Callable

from kbench.devices.backend import backend
from kbench.judge.reference.expected import Expected


def weighed(call: Callable[[], Expected], device: str) -> tuple[Expected, int]:
    """Call once; return the result, and the most bytes that torch allocated meanwhile, less those of the result."""
    with backend(device).memory_peak() as peak_bytes:
        found = call()
        backend(device).synchronize()
        returned_bytes = sum(tensor.numel() * tensor.element_size() for tensor in found.tensors)
        return found, max(0, peak_bytes() - returned_bytes)
