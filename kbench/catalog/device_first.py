"""Make inputs and models on the device; where that raises, on the CPU, and move what was made.

Code written for KernelBench makes everything on the CPU, and then moves it: generators, arrays of NumPy and pinned
memory work there only.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from kbench.catalog.containers import over_leaves

T = TypeVar("T")
FINAL = ("OutOfMemoryError", "AcceleratorError", "MemoryError")
"""Names of exceptions after which the CPU is not tried: the device has no room, or has failed."""


def device_first(make: Callable[[str], T], place: str, otherwise: str = "cpu") -> tuple[T, str]:
    """Call `make` with a default device, and once more with the CPU where that raises; return where it worked, too.

    `make` gets the device, and seeds the generators itself. If the CPU does not help, the first exception is raised.
    """
    import torch

    try:
        with torch.device(place):
            return make(place), place
    except Exception as error:
        if place == otherwise or type(error).__name__ in FINAL:
            raise
        try:
            with torch.device(otherwise):
                return make(otherwise), otherwise
        except Exception:  # noqa: BLE001 - whatever it is, the first one is raised
            raise error from None


def moved(value: Any, device: str) -> Any:
    """Return a value with every tensor in it on a device, and without the graph that made it.

    Lists, tuples, dictionaries, dataclasses and namespaces are searched, however deep. A container whose tensors all
    stay is returned itself, and a tensor that occurs twice stays one tensor.
    """
    import torch

    packed = torch.nn.utils.rnn.PackedSequence
    done: dict[int, Any] = {}

    def of_leaf(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor | packed):
            return leaf
        if id(leaf) not in done:
            alone: Any = leaf.detach() if isinstance(leaf, torch.Tensor) and leaf.requires_grad else leaf
            done[id(leaf)] = alone.to(device)
        return done[id(leaf)]

    return over_leaves(value, of_leaf, whole=(packed,))
