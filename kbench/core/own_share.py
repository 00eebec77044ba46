"""Whose kernels a call spends its time in: the column `own_share`, when it is profiled, and the flags that follow."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from kbench.core.kernel_names import KernelOrigin
from kbench.core.model import Status

LIBRARY_SHARE = 0.99
"""Chosen (issue 19): with this share of the time in libraries, the solution is a call of them."""
FALLBACK, LIBRARY_TIME = "fallback", "library_time"
"""Flags of a row."""


class ShareSource(StrEnum):
    """Where the share of a solution's own kernels comes from."""

    UNKNOWN = "unknown"
    BUILTIN = "builtin"
    """It is 0: a built-in solution has no source of its own."""
    JUDGE = "judge"
    """The judge has profiled a call already, because `--require-custom` or `--crosscheck cupti` asks for it."""
    WORKER = "worker"
    """A call is profiled in one more worker, whose times do not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnShare:
    """What one more worker told about a call."""

    share: float | None
    """From 0 to 1; None if not known."""
    reason: str = ""
    """Why it is not known."""
    status: Status | None = None


def share_source(*, names_kernels: bool, is_asked: bool, is_builtin: bool, processes: int) -> ShareSource:
    """Decide where the share of a solution that was timed comes from, in `processes` processes at most.

    A run of one process (`--quick`) is not made longer by another one.
    """
    if not names_kernels:
        return ShareSource.UNKNOWN
    if is_asked:
        return ShareSource.JUDGE
    if is_builtin:
        return ShareSource.BUILTIN
    return ShareSource.WORKER if processes > 1 else ShareSource.UNKNOWN


def share_of(timed: Iterable[tuple[KernelOrigin, float]], *origins: KernelOrigin) -> float | None:
    """Return the share of the time that has these origins, from 0 to 1; None if there is no time at all.

    `timed` has the origin and the time of each kernel or copy, in any one unit.
    """
    every = list(timed)
    whole = sum(time for _, time in every)
    return sum(time for origin, time in every if origin in origins) / whole if whole else None


def fell_back(share: float | None, *, declares_kernels: bool) -> bool:
    """Return whether a solution has kernels in its sources, and a call launched none of them."""
    return declares_kernels and share == 0


def flag_of(share: float | None, *, declares_kernels: bool) -> str:
    """Return the flag of a solution with this share of own kernels: `fallback`, `library_time` or none."""
    if fell_back(share, declares_kernels=declares_kernels):
        return FALLBACK
    return LIBRARY_TIME if share is not None and share <= 1 - LIBRARY_SHARE else ""
