"""The options of a run as a message: the judge has the same record as the parent, so that each is declared once."""

import dataclasses
from pathlib import Path
from typing import Any

from kbench.core.events import RunOptions
from kbench.core.levels import Level
from kbench.process.channel import Message, decode_constants, encode_constants


def encode_options(options: RunOptions) -> Message:
    """Encode options as plain JSON."""
    fields = dataclasses.asdict(dataclasses.replace(options, overrides={}))
    return {**fields, "overrides": encode_constants(options.overrides), "results_dir": str(options.results_dir)}


def decode_options(fields: Message) -> RunOptions:
    """Undo `encode_options`. Raises WireError, TypeError and ValueError."""
    special: dict[str, Any] = {
        "cases": tuple(fields["cases"]),
        "overrides": decode_constants(fields["overrides"]),
        "level": Level(fields["level"]),
        "accept": tuple(fields["accept"]),
        "results_dir": Path(fields["results_dir"]),
    }
    return RunOptions(**{**fields, **special})
