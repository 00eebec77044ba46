"""The journal of a selftest: its arguments, and one line for each finished fixture, until all are judged."""

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kbench.core.errors import ResultsError
from kbench.core.model import Status
from kbench.selftest.checks import Checked
from kbench.storage.journal_file import SUFFIX, JournalFile, whole_lines
from kbench.storage.json_values import plain, reader_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SelftestArguments:
    """Arguments of a selftest; `device` is a kind."""

    device: str
    names: tuple[str, ...] = ()
    corpus: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCheck:
    """One finished fixture."""

    check: Checked
    basis: str
    """A hash of all that the verdict depends on."""
    elapsed_s: float
    """Seconds that the selftest had taken by then, those of earlier commands included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelftestRecord:
    """Content of a journal, and its length in bytes without an incomplete last line; None: there is no journal yet."""

    arguments: SelftestArguments
    lines: tuple[KeptCheck, ...] = ()
    whole_bytes: int | None = None

    @property
    def elapsed_s(self) -> float:
        """Seconds that the selftest has taken so far."""
        return self.lines[-1].elapsed_s if self.lines else 0.0

    def still_valid(self, bases: Mapping[str, str]) -> dict[str, Checked]:
        """Return the checks by name whose basis is that of `bases`; kbench failed at none of them."""
        known = (line for line in self.lines if bases.get(line.check.name) == line.basis)
        return {line.check.name: line.check for line in known if line.check.status != Status.HARNESS_ERROR}


class SelftestJournal(JournalFile):
    """The open journal of a running selftest; a context manager. It locks the file against other writers."""

    def __init__(self, path: Path, record: SelftestRecord):
        super().__init__(path, whole_bytes=record.whole_bytes, way_out="write elsewhere with `--save DIR`")
        self.record = record

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

    def append(self, kept: KeptCheck) -> None:
        """Write a finished fixture; it is on the disk when this returns. Raises MachineError."""
        self.write(plain(kept))


def read(path: Path) -> SelftestRecord:
    """Read a journal. Raises ResultsError for what is none, MachineError if it is unreadable."""
    written, whole_bytes = whole_lines(path)
    arguments: SelftestArguments | None = None
    lines: list[KeptCheck] = []
    try:
        arguments = reader_of(SelftestArguments).validate_python(json.loads(written[0])["selftest"])
        for line in written[1:]:
            lines.append(reader_of(KeptCheck).validate_json(line))  # noqa: PERF401 - a message counts them
    except (ValueError, RecursionError, KeyError, TypeError, IndexError) as error:
        damage = f"is damaged in line {len(lines) + 2}: {error}"
        what = damage if arguments is not None else "is not the journal of a selftest"
        raise ResultsError(f"{path} {what}", "name one that `--save` has kept, or start again") from error
    return SelftestRecord(arguments=arguments, lines=tuple(lines), whole_bytes=whole_bytes)
