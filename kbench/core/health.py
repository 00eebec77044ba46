"""Health of a GPU after a crash: the observations, and the rule that decides whether it is still usable."""

from dataclasses import dataclass
from enum import StrEnum

from kbench.core.model import Status

PROBED_AFTER = frozenset(
    {
        *(Status.ILLEGAL_ACCESS, Status.LAUNCH_FAILED, Status.CRASHED, Status.HARNESS_ERROR, Status.REFERENCE_FAILED),
        *(Status.IMPORT_TIMEOUT, Status.CALL_TIMEOUT, Status.TOTAL_TIMEOUT),
    }
)
"""Statuses after which a device may be broken: crashes, hangs, and a failure of the judge."""


class ProbeAnswer(StrEnum):
    """Result of a fresh process that allocates memory on the device, fills it by a kernel and reads it back."""

    RIGHT = "right"
    WRONG = "wrong"
    FAILED = "failed"
    """CUDA returned an error, or the process died."""
    SILENT = "silent"
    FULL = "full"
    """No memory was left; this says nothing about the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """The driver's report about the device; None where it reports nothing."""

    uncorrected_errors: int | None = None
    """Memory errors that ECC found and could not correct since the driver was loaded."""
    remap_pending: bool | None = None
    """A memory row waits for a reset to be replaced."""
    remap_failed: bool | None = None
    recovery: str | None = None
    """Action that the driver asks for (`gpu_reset`, `node_reboot`, ...); empty for none."""


def diagnose(answer: ProbeAnswer, detail: str, before: Vitals, after: Vitals) -> str | None:
    """Return why a device must not be used further, or None; `before` was read when the run began."""
    words = {
        ProbeAnswer.WRONG: "a kernel of one line computed a wrong result",
        ProbeAnswer.FAILED: "a fresh process could not use it",
        ProbeAnswer.SILENT: "a fresh process got no answer from it",
    }
    if answer in words:
        return f"{words[answer]}: {detail}" if detail else words[answer]
    if after.recovery:
        return f"its driver asks for {after.recovery.replace('_', ' ')}"
    if after.remap_failed:
        return "a faulty row of its memory could not be replaced"
    if after.remap_pending and not before.remap_pending:
        return "a faulty row of its memory waits for a reset to be replaced"
    new = (after.uncorrected_errors or 0) - (before.uncorrected_errors or 0)
    if before.uncorrected_errors is not None and new > 0:
        return f"uncorrectable memory errors: {new} since the run began"
    return None
