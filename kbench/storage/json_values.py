"""Records as JSON values, and back."""

import dataclasses
import functools
import math
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any


def plain(value: Any) -> Any:
    """Convert records, enums and paths to JSON values; numbers that JSON lacks (NaN, infinities) become text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    nameless = isinstance(value, PurePath) or (isinstance(value, float) and not math.isfinite(value))
    return str(value) if nameless else value


@functools.cache
def reader_of(kind: Any) -> Any:
    """Return what reads records of a kind: pydantic's adapter, imported when it is needed and made once."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
