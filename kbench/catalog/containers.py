"""Objects that hold values by name, as arguments and results do: dataclasses and namespaces."""

import copy
import dataclasses
import types
from collections.abc import Callable, Mapping
from typing import Any


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


def over_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a value with `change` applied to everything in it, however deep in containers (`fields_of`)."""
    if isinstance(value, dict):
        return {key: over_leaves(item, change) for key, item in value.items()}
    if isinstance(value, tuple | list):
        items = [over_leaves(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if fields := fields_of(value):
        return with_fields(value, {name: over_leaves(item, change) for name, item in fields.items()})
    return change(value)
