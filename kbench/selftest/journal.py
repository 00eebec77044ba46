"""The journal of a selftest: its arguments, and one line for each finished fixture, until all are judged."""

import itertools
import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kbench.core.errors import ResultsError
from kbench.core.model import Status
from kbench.selftest.checks import Checked
from kbench.storage.journal_file import SUFFIX, JournalFile, whole_lines
from kbench.storage.json_values import plain, reader_of

FORMAT = 1
FIXTURE = "the fixture"
"""Name of the hash of a fixture in what its verdict depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelftestArguments:
    """Arguments of a selftest; `device` is a kind."""

    device: str
    names: tuple[str, ...] = ()
    fast: bool = False
    corpus: Path | None = None
    format: int = FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCheck:
    """One finished fixture."""

    check: Checked
    basis: dict[str, str]
    """Conditions that the verdict depends on, by their names in messages."""
    sitting: int
    """Number of the command that judged it, from 1."""
    at_s: float
    """Seconds since that command began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelftestRecord:
    """Content of a journal, and its length in bytes without an incomplete last line; None: there is no journal yet."""

    arguments: SelftestArguments
    lines: tuple[KeptCheck, ...] = ()
    whole_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Checks of earlier sittings that still hold, and the number and seconds of those sittings."""

    checks: tuple[Checked, ...] = ()
    sittings: int = 0
    elapsed_s: float = 0.0
    again: tuple[str, ...] = ()
    """Reasons for judging others again, a sentence each."""


class SelftestJournal(JournalFile):
    """The open journal of a running selftest; a context manager. It locks the file against other writers."""

    def __init__(self, path: Path, record: SelftestRecord):
        super().__init__(path, whole_bytes=record.whole_bytes, way_out="write elsewhere with `--save DIR`")
        self.record = record
        self._sitting = max((line.sitting for line in record.lines), default=0) + 1
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        stem = self.path.name.removesuffix(SUFFIX)
        for number in itertools.count(2):
            try:
                super().__enter__()
                break
            except FileExistsError:  # another selftest began in the same second
                self.path = self.path.with_name(f"{stem}-{number}{SUFFIX}")
        if self.record.whole_bytes is None:
            self.write({"selftest": plain(self.record.arguments)})
        return self

    def append(self, check: Checked, basis: dict[str, str]) -> None:
        """Write a finished fixture; it is on the disk when this returns. Raises MachineError."""
        at_s = time.monotonic() - self._began
        self.write(plain(KeptCheck(check=check, basis=basis, sitting=self._sitting, at_s=at_s)))


def still_holds(record: SelftestRecord, bases: Mapping[str, dict[str, str]]) -> Past:
    """Choose the checks whose basis is the one in `bases`; a fixture that kbench failed at is judged again."""
    kept: dict[str, KeptCheck] = {}
    dropped: dict[str, str] = {}
    for line in record.lines:
        name = line.check.name
        if name not in bases:
            continue  # there is no such fixture any more
        changes = [
            f"{what} was {line.basis.get(what)} and is {now}" if what != FIXTURE else f"{what} has changed"
            for what, now in bases[name].items()
            if line.basis.get(what) != now
        ]
        if line.check.status == Status.HARNESS_ERROR:
            changes.append(f"it was {line.check.status}")
        if changes:
            dropped[name] = ", ".join(changes)
        else:
            kept[name] = line
    used = {line.sitting for line in kept.values()}
    reasons = Counter(why for name, why in dropped.items() if name not in kept)
    return Past(
        checks=tuple(line.check for line in kept.values()),
        sittings=len(used),
        elapsed_s=sum(max(line.at_s for line in record.lines if line.sitting == one) for one in used),
        again=tuple(f"{count} judged again: {why}" for why, count in reasons.items()),
    )


def read(path: Path) -> SelftestRecord:
    """Read a journal. Raises ResultsError for what is none or has another format, MachineError if it is unreadable."""
    written, whole_bytes = whole_lines(path)
    arguments: SelftestArguments | None = None
    lines: list[KeptCheck] = []
    try:
        arguments = reader_of(SelftestArguments).validate_python(json.loads(written[0])["selftest"])
        if arguments.format != FORMAT:
            raise ResultsError(f"{path} has format {arguments.format}, not {FORMAT}", "start the selftest again")
        for line in written[1:]:
            lines.append(reader_of(KeptCheck).validate_json(line))  # noqa: PERF401 - a message counts them
    except (ValueError, RecursionError, KeyError, TypeError, IndexError) as error:
        damage = f"is damaged in line {len(lines) + 2}: {error}"
        what = damage if arguments is not None else "is not the journal of a selftest"
        raise ResultsError(f"{path} {what}", "name one that `--save` has kept, or start again") from error
    return SelftestRecord(arguments=arguments, lines=tuple(lines), whole_bytes=whole_bytes)
