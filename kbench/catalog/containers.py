"""Objects that hold values by name, as arguments and results do: dataclasses and namespaces."""

import copy
import dataclasses
import types
from collections.abc import Mapping
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
