"""Errors that a user can act on, their hints, and the exit codes of the command line."""

import difflib
from collections.abc import Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit status of `kbench`."""

    OK = 0
    """Done, and the verdict is positive. An improvement is positive."""
    NEGATIVE = 1
    """Negative verdict: wrong, crashed, cheated or regressed. Nothing else gives 1."""
    USAGE = 2
    """Usage or configuration: unknown name, bad flag, bad settings, a problem whose reference fails, a refused file."""
    ENVIRONMENT = 3
    """Environment: no device, no compiler, no baseline, no room on the disk."""
    INCONCLUSIVE = 4
    """Inconclusive: every case is unclear. With `--strict` one unclear, unstable or imprecise result is enough."""
    NOTHING_SELECTED = 5
    """Nothing selected: a gate or a comparison without cases is not green."""
    INTERNAL = 70
    """Internal error of kbench."""
    INTERRUPTED = 130
    """Interrupted (Ctrl-C or SIGTERM). Rows of finished cases are on the disk."""


class KbenchError(Exception):
    """A failure with a message, a hint that can be typed, and an exit code."""

    exit_code = ExitCode.USAGE

    def __init__(self, message: str, hint: str | None = None, exit_code: ExitCode | None = None):
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code if exit_code is not None else type(self).exit_code


class UsageError(KbenchError):
    """An argument, a setting, a name or a value that does not exist or does not fit."""


class PluginError(KbenchError):
    """A problem or solution file that cannot be used as such."""


class ReferenceRaisedError(PluginError):
    """The reference raised, as its cause says, on inputs that its own file makes."""


class ResultsError(KbenchError):
    """A results file that is truncated, edited, or of another schema version."""


class MachineError(KbenchError):
    """Something the machine lacks: a device, a compiler, a baseline, room on the disk."""

    exit_code = ExitCode.ENVIRONMENT


class NoGpuError(MachineError):
    """A GPU was asked for, and the machine has none."""


class NothingSelectedError(KbenchError):
    """The selection is empty: nothing was run, compared or gated."""

    exit_code = ExitCode.NOTHING_SELECTED


class InternalError(KbenchError):
    """A part of kbench itself misbehaved: the judge died or answered nonsense."""

    exit_code = ExitCode.INTERNAL


def did_you_mean(name: str, known: Sequence[str], *, listing: str | None = None, cutoff: float = 0.6) -> str | None:
    """Return a hint with the closest of `known`, or how to list them."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
    near = near or [one for one in known if name and one.startswith(name)]
    if near:
        return f"did you mean `{near[0]}`?"
    if listing is not None:
        return listing
    return "known: " + ", ".join([*known[:12], *["…"] * (len(known) > 12)]) if known else None
