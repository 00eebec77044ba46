"""One JSON document per command, also on errors: common keys, and the command's own data."""

import json
from collections.abc import Iterable
from typing import Any

from kbench.core.version import __version__
from kbench.storage.json_values import plain

SCHEMA = 1
"""Version of the documents: names and meanings of the keys. New keys may come without a new version."""


def render_document(
    command: str,
    *,
    status: str,
    reason: str = "",
    hint: str | None = None,
    exit_code: int = 0,
    findings: Iterable[Any] = (),
    speedup: float | None = None,
    results: Iterable[Any] = (),
    **data: Any,
) -> str:
    """Write one document with all common keys, also empty ones.

    Findings are mappings or records with at least a `message`. Values that JSON lacks (NaN, infinities) become their
    names as text.
    """
    document = {
        "schema": SCHEMA,
        "command": command,
        "kbench_version": __version__,
        "status": status,
        "reason": reason,
        "hint": hint,
        "exit_code": int(exit_code),
        "findings": list(findings),
        "speedup": speedup,
        **data,
        "results": list(results),
    }
    return json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=False)
