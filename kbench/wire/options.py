"""The options of a run as a message: the judge has the same record as the parent, so that each is declared once."""

import dataclasses
from pathlib import Path
from typing import Any

from kbench.core.events import RunOptions, TimeLimits
from kbench.core.levels import Level
from kbench.wire.channel import Message, decode_constants, encode_constants


def encode_options(options: RunOptions) -> Message:
    """Encode options as plain JSON."""
    told = dataclasses.asdict(dataclasses.replace(options, overrides={}))
    return {**told, "overrides": encode_constants(options.overrides), "results_dir": str(options.results_dir)}


def decode_options(told: Message) -> RunOptions:
    """Undo `encode_options`. Raises WireError, TypeError and ValueError."""
    special: dict[str, Any] = {
        "cases": tuple(told["cases"]),
        "overrides": decode_constants(told["overrides"]),
        "limits": TimeLimits(**told["limits"]),
        "level": Level(told["level"]),
        "accept": tuple(told["accept"]),
        "results_dir": Path(told["results_dir"]),
    }
    return RunOptions(**{**told, **special})
