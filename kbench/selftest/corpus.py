"""The selftest's corpus: cheats and honest look-alikes, one file each, described by literals in the file.

A fixture is a solution file with `PROBLEM`, `CLASS` and, where the default does not hold, the literals of OWN_NAMES
(see `Fixture`), `SPEED = "fast"` (part of the quick half) and `DEVICES`. Fixtures are read, never imported.
"""

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbench.core.errors import PluginError, UsageError, did_you_mean
from kbench.core.levels import Level
from kbench.core.model import Outcome, Status
from kbench.plugins import source
from kbench.plugins.source import Source

SHIPPED = Path(__file__).resolve().parent.parent / "attacks"
TIMED_PROBLEM = "sine_chain"
"""Fixtures of this problem are about time."""
TOO_FAST = "passed with a speed-up of"
OWN_NAMES = {
    *("PROBLEM", "CATALOGUE", "EXPECT", "LEVEL", "LACKS", "FINDINGS", "SPEEDUP_BELOW", "EFFECTS", "OPTIONS"),
    *("LIMITS", "ALONE"),
}
"""Literals that have the name of a field of Fixture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """One attack or honest look-alike, with what must come of it."""

    name: str
    honest: bool
    category: str
    problem: str
    summary: str
    devices: tuple[str, ...]
    catalogue: str = ""
    fast: bool = False
    expect: tuple[str, ...] = (Status.PASSED.value,)
    """Statuses that it may end with."""
    level: str = ""
    """The highest that it must be found to hold; empty: any."""
    lacks: tuple[str, ...] = ()
    """Globs; each must match the code of a property that it lacks."""
    findings: tuple[str, ...] = ()
    """Globs; each must match a finding's code, or `contract_` and the state of the contract."""
    speedup_below: float | None = None
    """Where it passes: the attested speed-up must be below this, or absent."""
    effects: tuple[str, ...] = ()
    """What must not have happened: `file PATH`, `changed PATH`, `process NAME`, `tcp PORT`, `udp PORT`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Fields of RunOptions."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Fields of TimeLimits."""
    alone: bool = False
    """It leaves no room for others, or searches what they hold."""

    @property
    def is_exclusive(self) -> bool:
        """Whether nothing may run beside it."""
        return self.alone or self.problem == TIMED_PROBLEM


def read(folder: Path = SHIPPED) -> tuple[Fixture, ...]:
    """Read `cheats/*.py`, then `honest/*.py`, each in alphabetical order. Raises PluginError."""
    paths = [*sorted((folder / "cheats").glob("[!_]*.py")), *sorted((folder / "honest").glob("[!_]*.py"))]
    return tuple(_fixture(source.parse(path)) for path in paths)


def fixture_path(folder: Path, fixture: Fixture) -> Path:
    """Return where a fixture lies in a corpus."""
    return folder / ("honest" if fixture.honest else "cheats") / f"{fixture.name}.py"


def problem_path(folder: Path, problem: str) -> Path:
    """Return where a problem lies in a corpus."""
    return folder / "problems" / f"{problem}.py"


def select(
    fixtures: Sequence[Fixture], *, device: str, fast: bool = False, names: Sequence[str] = ()
) -> tuple[Fixture, ...]:
    """Choose the fixtures that run on `device`: the named ones, or the fast half, or all. Raises UsageError."""
    known = {fixture.name for fixture in fixtures}
    for name in names:
        if name not in known:
            raise UsageError(f"no fixture named `{name}`", did_you_mean(name, sorted(known)))
    here = [fixture for fixture in fixtures if device in fixture.devices]
    if names:
        return tuple(fixture for fixture in here if fixture.name in names)
    return tuple(fixture for fixture in here if fixture.fast or not fast)


def _fixture(parsed: Source) -> Fixture:
    values = parsed.constants()
    missing = sorted({"PROBLEM", "CLASS"} - set(values))
    if missing:
        raise PluginError(f"{parsed.path} has no literal `{missing[0]}`, so it is not a fixture")
    told: dict[str, Any] = {
        name.lower(): tuple(v) if isinstance(v, list) else v for name, v in values.items() if name in OWN_NAMES
    }
    found = Fixture(
        name=parsed.path.stem,
        honest=parsed.path.parent.name == "honest",
        category=values["CLASS"],
        summary=parsed.summary,
        devices=parsed.devices,
        fast=values.get("SPEED") == "fast",
        **told,
    )
    unknown = sorted(set(found.expect) - {*Status})
    if unknown:
        raise PluginError(f"{parsed.path} expects `{unknown[0]}`, which is not a status")
    if found.level and found.level not in {*Level}:
        raise PluginError(f"{parsed.path} expects `{found.level}`, which is not a level")
    return found


def complain(
    fixture: Fixture, status: str, seen: Sequence[str], speedup: float | None, escapes: Sequence[str]
) -> str | None:
    """Return what is wrong with a fixture's status; None if it is as expected."""
    if escapes:
        return f"not contained: {', '.join(escapes)}"
    if status not in fixture.expect:
        return f"{status}, expected {' or '.join(fixture.expect)}"
    for pattern in fixture.findings:
        if not fnmatch.filter(seen, pattern):
            return f"no finding `{pattern}`"
    limit = fixture.speedup_below
    if status == Status.PASSED and limit is not None and speedup is not None and speedup >= limit:
        return f"{TOO_FAST} {speedup:.2f}, must stay below {limit:g}"
    return None


def complain_of_level(fixture: Fixture, status: str, outcome: Outcome) -> str | None:
    """Return what is wrong with the level of a fixture that did the task; None if it is as expected."""
    if status not in {Status.PASSED, Status.BELOW_LEVEL}:
        return None  # which the fixture expects, or there is a complaint already
    if fixture.level and outcome.level != fixture.level:
        return f"holds the level `{outcome.level}`, expected `{fixture.level}`"
    for pattern in fixture.lacks:
        if not fnmatch.filter(outcome.lacks, pattern):
            return f"does not lack `{pattern}`"
    return None


def evidence(outcome: Outcome) -> tuple[str, ...]:
    """Return the codes of the findings, and `contract_` with the state of the contract unless it held."""
    codes = [finding.code for finding in outcome.findings]
    if outcome.correctness is not None and outcome.correctness.contract != "held":
        codes.append(f"contract_{outcome.correctness.contract}")
    return tuple(codes)
