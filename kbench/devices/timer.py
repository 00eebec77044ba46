"""Timing of one call in a worker, on any device. The timers are in `cpu.py` and `cuda.py`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kbench.devices.poison import poison_floats

if TYPE_CHECKING:
    from torch import Tensor

Call = Callable[[int], Any]
HOST_SLACK_BYTES = 128
HOST_SMALL_BYTES = 1 << 16
HOST_BLOCKS = 16
"""Sizes with which glibc 2.36 gives poisoned memory to an empty C++ function, tried with outputs of 2 KB to 13 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedCall:
    """One measured call: the device's time, the host's time to submit it, and its result."""

    t_event_ns: int
    t_submit_ns: int
    output: Any


class Timer:
    """Times `call(slot)`; captures and prepares nothing, unless a device's does."""

    name: str

    def start(self) -> None:
        """Prepare this process for calls in a row, so that both arms begin in the same state."""

    def measure(self, call: Call, slot: int) -> TimedCall:
        """Call once and return the time of the call."""
        raise NotImplementedError

    def prepared(self, call: Call, slots: Sequence[int], *, replay: bool) -> Call:  # noqa: ARG002
        """Return `call` for these slots, or the `replay` of a graph of it."""
        return call

    def forget(self) -> None:
        """Release captured graphs, because inputs lie elsewhere now or their numbers changed."""


def poison_pool(outputs: "Sequence[Tensor]") -> None:
    """Poison free memory of the outputs' sizes, so that unwritten elements are recognised."""
    held = [tensor for output in outputs if output.is_floating_point() for tensor in _free_memory(output)]
    for tensor in held:
        poison_floats(tensor)


def _free_memory(output: "Tensor") -> "list[Tensor]":
    """Allocate the memory that a call is likely to get for an output; on the host several blocks for small ones."""
    import torch

    if output.device.type == "cpu":
        blocks = HOST_BLOCKS if output.nbytes < HOST_SMALL_BYTES else 1
        size = output.numel() + HOST_SLACK_BYTES // output.element_size()
        return [torch.empty(size, dtype=output.dtype) for _ in range(blocks)]
    return [torch.empty_strided(output.shape, output.stride(), dtype=output.dtype, device=output.device)]
