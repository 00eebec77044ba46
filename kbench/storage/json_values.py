"""Records as JSON values and back; and JSON files that processes share, each replaced as a whole."""

import dataclasses
import functools
import json
import math
import os
import threading
from collections.abc import Mapping
from enum import Enum
from pathlib import Path, PurePath
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


def read(path: Path) -> dict[str, Any]:
    """Return the object in a file; an empty one where there is none that can be read."""
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def write(path: Path, value: Any) -> None:
    """Write a JSON value, and make the folder. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    draft.write_text(json.dumps(value, indent=1))
    draft.replace(path)
