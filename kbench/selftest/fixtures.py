"""The selftest's corpus: cheats and honest look-alikes, described by literals beside their code.

Each class with a `PROBLEM` in its body is a fixture with the name of the class. A file without such classes is one
fixture with the name of the file, and its `ModelNew` is judged. The literals are `PROBLEM`, `CLASS` and, where the
default does not hold, those of OWN_NAMES (see `Fixture`) and `DEVICES`; a class takes `CLASS` from its file. Fixtures
are read, never imported.
"""

import ast
import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbench.catalog import source
from kbench.catalog.registry import DEFAULT_ENTRY
from kbench.catalog.source import Source
from kbench.core.errors import PluginError, UsageError, did_you_mean
from kbench.core.levels import Level
from kbench.core.model import Outcome, Status
from kbench.selftest.checks import Checked

CORPUS = Path(__file__).resolve().parent / "corpus"
FOLDERS = {"cheats": False, "honest": True}
"""Folders of a corpus with fixtures, and whether these are honest."""
TIMED_PROBLEM = "sine_chain"
"""Fixtures of this problem are about time."""
TOO_FAST = "passed with a speed-up of"
OWN_NAMES = {
    *("PROBLEM", "CATALOGUE", "EXPECT", "LEVEL", "LACKS", "FINDINGS", "SPEEDUP_BELOW", "EFFECTS", "OPTIONS"),
    "ALONE",
}
"""Literals that have the name of a field of Fixture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """One attack or honest look-alike, with what must come of it."""

    name: str
    source: Path
    """Its file, from the corpus."""
    entry: str = DEFAULT_ENTRY
    """The class or function in the file that is judged."""
    honest: bool
    category: str
    problem: str
    summary: str
    devices: tuple[str, ...]
    catalogue: str = ""
    expect: tuple[str, ...] = (Status.PASSED.value,)
    """Statuses that it may end with."""
    level: str = ""
    """The highest that it must be found to hold; empty: any."""
    lacks: tuple[str, ...] = ()
    """Globs; each must match the code of a property that it lacks."""
    findings: tuple[str, ...] = ()
    """Globs; each must match a finding's code, or `contract_` and the state of the contract."""
    speedup_below: float | None = None
    """Limit of the confirmed speed-up if it passes; no confirmed speed-up is right too."""
    effects: tuple[str, ...] = ()
    """Effects that are escapes: `file PATH`, `changed PATH`, `process NAME`, `tcp PORT`, `udp PORT`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Fields of RunOptions."""
    alone: bool = False
    """It leaves no room for others, or searches what they hold."""

    @property
    def is_exclusive(self) -> bool:
        """Return whether no other fixture may run beside it."""
        return self.alone or self.problem == TIMED_PROBLEM


def read_corpus(folder: Path = CORPUS) -> tuple[Fixture, ...]:
    """Read the cheats, then the honest ones, each in alphabetical order. Raises PluginError."""
    paths = [path for kind in FOLDERS for path in sorted((folder / kind).glob("[!_]*.py"))]
    found = [fixture for path in paths for fixture in _fixtures(source.parse(path))]
    return tuple(sorted(found, key=lambda fixture: (fixture.honest, fixture.name)))


def problem_path(folder: Path, problem: str) -> Path:
    """Return where a problem lies in a corpus."""
    return folder / "problems" / f"{problem}.py"


def select(fixtures: Sequence[Fixture], *, device: str, names: Sequence[str] = ()) -> tuple[Fixture, ...]:
    """Choose the fixtures that run on `device`: the named ones, or all. Raises UsageError."""
    known = {fixture.name for fixture in fixtures}
    for name in names:
        if name not in known:
            raise UsageError(f"no fixture named `{name}`", did_you_mean(name, sorted(known)))
    here = (fixture for fixture in fixtures if device in fixture.devices)
    return tuple(fixture for fixture in here if not names or fixture.name in names)


def _fixtures(parsed: Source) -> Iterator[Fixture]:
    """Yield the fixtures of a file: each class that names its problem, else the file as a whole."""
    classes = [node for node in parsed.tree.body if isinstance(node, ast.ClassDef)]
    bodies = {node.name: Source(path=parsed.path, tree=ast.Module(node.body, [])) for node in classes}
    described = {name: body for name, body in bodies.items() if "PROBLEM" in body.names}
    shared = {name: value for name, value in parsed.constants().items() if name == "CLASS"}
    for name, body in described.items():
        yield _fixture(name, name, body, shared | body.constants())
    if not described:
        yield _fixture(parsed.path.stem, DEFAULT_ENTRY, parsed, parsed.constants())


def _fixture(name: str, entry: str, described: Source, values: Mapping[str, Any]) -> Fixture:
    place = described.path if entry == DEFAULT_ENTRY else f"{described.path}, class {entry}"
    missing = sorted({"PROBLEM", "CLASS"} - set(values))
    if missing:
        raise PluginError(f"{place} has no literal `{missing[0]}`, so it is not a fixture")
    own: dict[str, Any] = {
        key.lower(): tuple(v) if isinstance(v, list) else v for key, v in values.items() if key in OWN_NAMES
    }
    kind = described.path.parent.name
    found = Fixture(
        name=name,
        source=Path(kind, described.path.name),
        entry=entry,
        honest=FOLDERS[kind],
        category=values["CLASS"],
        summary=" ".join((ast.get_docstring(described.tree) or "").partition("\n\n")[0].split()),
        devices=described.devices,
        **own,
    )
    unknown = sorted(set(found.expect) - {*Status})
    if unknown:
        raise PluginError(f"{place} expects `{unknown[0]}`, which is not a status")
    if found.level and found.level not in {*Level}:
        raise PluginError(f"{place} expects `{found.level}`, which is not a level")
    return found


def complaint_about(fixture: Fixture, check: Checked) -> str | None:
    """Return what is wrong with what came of a fixture; None if it is as expected."""
    if check.escapes:
        return f"not contained: {', '.join(check.escapes)}"
    if check.status not in fixture.expect:
        return f"{check.status}, expected {' or '.join(fixture.expect)}"
    for pattern in fixture.findings:
        if not fnmatch.filter(check.findings, pattern):
            return f"no finding `{pattern}`"
    passed, limit = check.status == Status.PASSED, fixture.speedup_below
    if passed and limit is not None and check.speedup is not None and check.speedup >= limit:
        return f"{TOO_FAST} {check.speedup:.2f}, must stay below {limit:g}"
    if not passed and check.status != Status.BELOW_LEVEL:
        return None
    if fixture.level and check.level != fixture.level:
        return f"holds the level `{check.level}`, expected `{fixture.level}`"
    for pattern in fixture.lacks:
        if not fnmatch.filter(check.lacks, pattern):
            return f"does not lack `{pattern}`"
    return None


def evidence(outcome: Outcome) -> tuple[str, ...]:
    """Return the codes of the findings, and `contract_` with the state of the contract unless it held."""
    codes = [finding.code for finding in outcome.findings]
    if outcome.correctness is not None and outcome.correctness.contract != "held":
        codes.append(f"contract_{outcome.correctness.contract}")
    return tuple(codes)
