"""JSON files that processes share: one is replaced as a whole, so that nobody reads half of it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read(path: Path) -> dict[str, Any]:
    """Return the object in a file; an empty one where there is none that can be read."""
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def write(path: Path, value: Mapping[str, Any]) -> None:
    """Write an object, and make the folder. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(value, indent=1))
    draft.replace(path)
