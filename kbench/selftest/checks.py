"""The checks of a selftest, and what they prove together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from kbench.core.errors import ExitCode
from kbench.core.model import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One fixture was judged; `complaint` says what was wrong with that, None: nothing."""

    name: str
    honest: bool
    category: str
    problem: str
    catalogue: str
    expected: tuple[str, ...]
    status: str
    reason: str
    findings: tuple[str, ...]
    level: str
    lacks: tuple[str, ...]
    speedup: float | None
    """Largest confirmed speed-up; None without a confirmed time."""
    escapes: tuple[str, ...]
    elapsed_s: float
    complaint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCheck:
    """A finished fixture in the journal of a selftest."""

    check: Checked
    basis: str
    """A hash of all that the verdict depends on."""
    elapsed_s: float
    """Seconds that the selftest had taken by then, those of earlier commands included."""


def still_valid(lines: Iterable[KeptCheck], bases: Mapping[str, str]) -> dict[str, Checked]:
    """Return the checks by name whose basis is that of `bases`; kbench failed at none of them."""
    known = (line for line in lines if bases.get(line.check.name) == line.basis)
    return {line.check.name: line.check for line in known if line.check.status != Status.HARNESS_ERROR}


@dataclass(frozen=True, slots=True, kw_only=True)
class SelftestReport:
    """The checks of one selftest so far: all of them are the proof."""

    device: str
    device_name: str
    isolation: str
    torch: str
    fixtures: int
    """Number of fixtures to judge; there are fewer checks if the selftest ended early."""
    checks: tuple[Checked, ...]
    kept: int
    """Number of checks that `--resume` took from earlier commands."""
    elapsed_s: float
    """Wall time of all commands, builds and judges' starts included."""
    latest: Checked | None = None
    """The check that this report adds to the one before it; None in the first report."""

    def with_check(self, check: Checked, elapsed_s: float) -> Self:
        """Return the report with a further check, in the order of the corpus."""
        checks = sorted((*self.checks, check), key=lambda one: (one.honest, one.name))
        return replace(self, checks=tuple(checks), latest=check, elapsed_s=elapsed_s)

    @property
    def is_complete(self) -> bool:
        """Return whether every fixture was judged."""
        return len(self.checks) == self.fixtures

    @property
    def detection_rate(self) -> float | None:
        """Share of attacks that were caught or contained; None without attacks."""
        return _share([check.complaint is None for check in self.checks if not check.honest])

    @property
    def false_positive_rate(self) -> float | None:
        """Share of honest solutions that did not pass; None without any."""
        return _share([check.complaint is not None for check in self.checks if check.honest])

    @property
    def misses(self) -> tuple[Checked, ...]:
        """Attacks that went through and honest solutions that did not."""
        return tuple(check for check in self.checks if check.complaint is not None)

    @property
    def exit_code(self) -> ExitCode:
        """Exit code of the command."""
        if not self.is_complete:
            return ExitCode.INTERRUPTED
        return ExitCode.NEGATIVE if self.misses else ExitCode.OK


def _share(answers: Sequence[bool]) -> float | None:
    return sum(answers) / len(answers) if answers else None
