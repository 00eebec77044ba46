"""Restriction of a worker before any solution is known."""

import sys
from pathlib import Path

from kbench.process.channel import Message
from kbench.sandbox import rungs


def restrict(message: Message, *, then_exec: bool = False) -> None:
    """Apply the sandbox of the given rung to this process, or to the program that it executes next."""
    rungs.restrict_self(
        rungs.Rung(message["rung"]),
        writable=[Path(path) for path in message["writable"]],
        temporary=Path(message["temporary"]),
        hidden=[Path(path) for path in message.get("hidden", ())],
        readable=[Path(sys.pycache_prefix)] if sys.pycache_prefix is not None else [],
        allow_exec=message["allow_exec"],
        then_exec=then_exec,
    )
