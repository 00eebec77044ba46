"""Objects that hold values by name, as arguments and results do: dataclasses and namespaces."""

import copy
import dataclasses
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def fields_of(value: Any) -> dict[str, Any]:
    """Return what a dataclass or a namespace holds, by name; empty for everything else."""
    if isinstance(value, types.SimpleNamespace):
        return dict(vars(value))
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return {}
    return {each.name: getattr(value, each.name, None) for each in dataclasses.fields(value)}


def with_fields(value: Any, fields: Mapping[str, Any]) -> Any:
    """Return a copy that holds other values, made without its constructor: fields may be frozen or computed."""
    copied = copy.copy(value)
    for name, new in fields.items():
        object.__setattr__(copied, name, new)
    return copied


def over_leaves(value: Any, change: Callable[[Any], Any], whole: tuple[type, ...] = ()) -> Any:
    """Return a value with `change` applied to everything in it, however deep in containers (`fields_of`).

    A container of which nothing changes is returned itself. Instances of the classes `whole` count as leaves.
    """
    if isinstance(value, whole):
        return change(value)
    if isinstance(value, dict):
        items = {key: over_leaves(item, change, whole) for key, item in value.items()}
        if all(items[key] is value[key] for key in items):
            return value
        changed = value.copy()
        changed.update(items)
        return changed
    if isinstance(value, tuple | list):
        found = [over_leaves(item, change, whole) for item in value]
        if all(new is old for new, old in zip(found, value, strict=True)):
            return value
        return type(value)(*found) if hasattr(value, "_fields") else type(value)(found)
    if fields := fields_of(value):
        new_fields = {name: over_leaves(item, change, whole) for name, item in fields.items()}
        same = all(new is fields[name] for name, new in new_fields.items())
        return value if same else with_fields(value, new_fields)
    return change(value)


def leaves(value: Any) -> list[Any]:
    """Return everything in a value that is no container, in the order in which `over_leaves` changes it."""
    found: list[Any] = []

    def keep(leaf: Any) -> Any:
        found.append(leaf)
        return leaf

    over_leaves(value, keep)
    return found


def tensors(value: Any) -> "list[Tensor]":
    """Return the tensors in a value, however deep in containers, in order."""
    import torch

    return [leaf for leaf in leaves(value) if isinstance(leaf, torch.Tensor)]
