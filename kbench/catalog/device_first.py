"""Make inputs and models on the device; where that raises, on the CPU, and move what was made.

Code written for KernelBench makes everything on the CPU, and then moves it: generators, arrays of NumPy and pinned
memory work there only.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from kbench.catalog.containers import fields_of, with_fields

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
    return _moved(value, device, {})


def _moved(value: Any, device: str, done: dict[int, Any]) -> Any:
    import torch

    if id(value) in done:
        return done[id(value)][1]
    if isinstance(value, torch.Tensor):
        found: Any = (value.detach() if value.requires_grad else value).to(device)
    elif isinstance(value, torch.nn.utils.rnn.PackedSequence):
        packed: Any = value  # torch's own stubs know nothing of its `to`
        found = packed.to(device)
    elif isinstance(value, dict):
        found = _with_items(value, {key: _moved(item, device, done) for key, item in value.items()})
    elif isinstance(value, tuple | list):
        items = [_moved(item, device, done) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        found = value if same else type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    elif fields := fields_of(value):
        changed = {name: _moved(item, device, done) for name, item in fields.items()}
        same = all(new is fields[name] for name, new in changed.items())
        found = value if same else with_fields(value, changed)
    else:
        return value
    done[id(value)] = value, found  # the value as well: its number must not become another one's
    return found


def _with_items(value: dict[Any, Any], items: dict[Any, Any]) -> dict[Any, Any]:
    if all(new is value[key] for key, new in items.items()):
        return value
    copied = value.copy()
    copied.update(items)
    return copied
