"""Results on disk: `<stem>.csv` with one `ResultRow` per case and process, `<stem>.samples.csv` with every timed call.

Both are replaced as a whole after every finished row, the samples first: readers always find rows with their samples,
also after a crash. A row holds the hash of its sample lines: an edited or mixed file is refused.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, Self

from kbench.core.errors import MachineError, ResultsError, UsageError
from kbench.core.levels import unknown_word
from kbench.core.model import SCHEMA_VERSION, ResultRow, Sample, Status, Timing
from kbench.core.timed import timed_of
from kbench.storage import csvfile
from kbench.storage.journal_file import SUFFIX
from kbench.storage.runfiles import LISTING, samples_path

LONGEST_NAME = 200
"""Longest name and UUID of a device, which become names of folders and files."""


def constants_of(overrides: str) -> dict[str, Any]:
    """Read the constants of a row. Raises ValueError or TypeError unless they are a JSON object."""
    try:
        found = json.loads(overrides)
    except RecursionError as error:
        raise ValueError("too deep") from error
    if not isinstance(found, dict):
        raise TypeError("no object")
    return found


def require_row(path: Path, number: int, row: ResultRow) -> None:
    """Check the constants, codes and names of one row. Raises ResultsError naming line and column."""
    try:
        constants_of(row.overrides)
    except (ValueError, TypeError):
        raise csvfile.refuse(path, f"has no JSON object as `overrides` in line {number}") from None
    for level, codes in (("level", "lacks"), ("required_level", "accepted")):
        word = unknown_word(getattr(row, level), getattr(row, codes))
        if word is not None:
            raise csvfile.refuse(path, f"has `{word[:40]}` as `{level}` or in `{codes}` in line {number}")
    if row.timed != timed_of(row.case):
        raise csvfile.refuse(path, f"has `{row.timed[:40]}` as `timed` of another case in line {number}")
    for column in ("gpu_name", "gpu_uuid"):
        if len(getattr(row, column)) > LONGEST_NAME:
            raise csvfile.refuse(path, f"has {len(getattr(row, column))} characters as `{column}` in line {number}")


ROW_COLUMNS = tuple(field.name for field in fields(ResultRow))
SAMPLE_COLUMNS = tuple(field.name for field in fields(Sample))
NAME_COLUMNS = frozenset(field.name for field in fields(ResultRow) if field.type is str) - {"reason"}
"""Columns whose text is one line; a reason may have several."""
TIMING_COLUMNS = ("timer", "l2", "attested_ns", "attested_half_width_ns", "attestation", "wall_ns", "ref_wall_ns")
"""Columns that are fields of a `Timing` as well."""
LATER_COLUMN = "timed"
"""Column that older files of this schema lack."""

GroupKey = tuple[str, str, str, int]
"""(problem, solution, case, process): the key of one row and its samples."""


class CaseKey(NamedTuple):
    """Key of what is measured: a solution in a case of a problem."""

    problem: str
    solution: str
    case: str


KEY_COLUMNS = CaseKey._fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A results file as read: every row, and the samples of every row that has any."""

    path: Path
    rows: tuple[ResultRow, ...]
    samples: dict[GroupKey, tuple[Sample, ...]]

    @property
    def name(self) -> str:
        """The file's stem, on one line, whatever characters it contains."""
        return csvfile.one_line(self.path.stem)

    def by_case(self, cases: Sequence[str] = ()) -> dict[CaseKey, list[ResultRow]]:
        """Group the rows, in their order, by (problem, solution, case); `cases` are globs of cases to take."""
        groups: dict[CaseKey, list[ResultRow]] = {}
        for row in self.rows:
            if not cases or any(fnmatchcase(row.case, pattern) for pattern in cases):
                groups.setdefault(case_key(row), []).append(row)
        return groups

    def timings(self, rows: Iterable[ResultRow]) -> tuple[Timing, ...]:
        """Return the timings of rows that have samples."""
        return tuple(
            Timing(samples=samples, flags=tuple(row.flags.split()), **{n: getattr(row, n) for n in TIMING_COLUMNS})
            for row in rows
            if (samples := self.samples.get(group_key(row)))
        )


def case_key(row: ResultRow) -> CaseKey:
    """Return what a row is a measurement of."""
    return CaseKey(row.problem, row.solution, row.case)


def group_key(row: ResultRow) -> GroupKey:
    """Return the key of a row and its samples."""
    return *case_key(row), row.process


class RunWriter:
    """Writes a run as it goes; a context manager that reserves the file's name, and removes a file without rows.

    `again` writes the file of this name anew.
    """

    def __init__(
        self,
        directory: Path,
        name: str | None = None,
        *,
        problem: str = "",
        solutions: Sequence[str] = (),
        again: bool = False,
    ):
        self._again = again
        self._directory = Path(directory)
        self._is_named = bool(name)
        self._stem = safe_stem(name) if name else default_stem(problem, solutions)
        self._rows: dict[GroupKey, str] = {}
        self._samples: dict[GroupKey, list[str]] = {}
        self._path: Path | None = None

    @property
    def csv_path(self) -> Path:
        """Path of the rows."""
        if self._path is None:
            raise RuntimeError("the writer is used outside its `with` block")
        return self._path

    def __enter__(self) -> Self:
        if self._again:
            self._path = self._directory / f"{self._stem}.csv"
        else:
            self._path = _reserve(self._directory, self._stem, is_named=self._is_named)
        try:
            self._write()
        except MachineError:
            self._path.unlink(missing_ok=True)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if not self._rows:
            samples_path(self.csv_path).unlink(missing_ok=True)
            self.csv_path.unlink(missing_ok=True)

    def append(self, row: ResultRow, samples: Sequence[Sample] = ()) -> ResultRow:
        """Write a row and its samples to the disk, in place of those of the same process; return it with their hash.

        Raises MachineError, and what was written before stays; ValueError for samples of another process.
        """
        other = next((sample.process for sample in samples if sample.process != row.process), None)
        if other is not None:
            raise ValueError(f"samples of process {other} with the row of process {row.process}")
        finished = self._add(row, samples)
        self._write()
        return finished

    def replace_all(self, rows: Iterable[tuple[ResultRow, Sequence[Sample]]]) -> Path:
        """Replace the file of this name by rows with their samples; return its path. Raises MachineError."""
        self._path = self._directory / f"{self._stem}.csv"
        for row, samples in rows:
            self._add(row, samples)
        self._write()
        return self._path

    def _add(self, row: ResultRow, samples: Sequence[Sample]) -> ResultRow:
        keys = [csvfile.cell(getattr(row, name)) for name in KEY_COLUMNS]
        cells = ([csvfile.cell(getattr(sample, name)) for name in SAMPLE_COLUMNS] for sample in samples)
        lines = [csvfile.line([*keys, *own]) for own in cells]
        finished = replace(row, samples_sha256=_digest(lines) if lines else "")
        self._rows[group_key(finished)] = csvfile.line([csvfile.cell(getattr(finished, name)) for name in ROW_COLUMNS])
        self._samples[group_key(finished)] = lines
        return finished

    def _write(self) -> None:
        # Samples first: a reader between the two sees samples without a row, never a row without samples.
        head = csvfile.line((*KEY_COLUMNS, *SAMPLE_COLUMNS))
        lines = (line for of_a_process in self._samples.values() for line in of_a_process)
        csvfile.replace_file(samples_path(self.csv_path), head + "".join(lines))
        csvfile.replace_file(self.csv_path, csvfile.line(ROW_COLUMNS) + "".join(self._rows.values()))


def default_stem(problem: str, solutions: Sequence[str]) -> str:
    """`<UTC time>-<problem>-<solutions>`, at most 120 characters, safe as a file name."""
    stems = [Path(name).stem if "/" in name else name for name in solutions]
    named = "-".join(stems) if len(stems) <= 3 else f"{len(stems)}-solutions"
    parts = (datetime.now(UTC).strftime("%Y-%m-%dT%H%M%S"), Path(problem).stem if "/" in problem else problem, named)
    return safe_stem("-".join(part for part in parts if part))


def read_run(path: Path, *, needs_samples: bool = True) -> Run:
    """Read a run; without `needs_samples` the samples file may be missing. Raises ResultsError: truncated, edited..."""
    path = Path(path)
    rows = tuple(read_rows(path))
    if not rows and path.with_suffix(SUFFIX).is_file():
        hint = f"wait for it, or if it was broken off: `kbench run --resume {path.stem}`"
        raise ResultsError(f"{path} has no verdict yet", hint)
    if not rows:
        raise csvfile.refuse(path, "has no rows")
    if len({row.run_id for row in rows}) > 1:
        raise csvfile.refuse(path, "mixes the rows of several runs")
    has_samples = needs_samples or samples_path(path).is_file()
    groups = _read_samples(path, needed=any(row.samples_sha256 for row in rows)) if has_samples else {}
    samples: dict[GroupKey, tuple[Sample, ...]] = {}
    seen: set[GroupKey] = set()
    for row in rows:
        key = group_key(row)
        if key in seen:
            raise csvfile.refuse(path, f"has two rows for {'/'.join(key[:3])}, process {row.process}")
        if row.status not in set(Status):
            raise csvfile.refuse(path, f"has a status `{row.status[:40]}` that does not exist")
        seen.add(key)
        if not row.samples_sha256 or not has_samples:
            continue
        lines, parsed = groups.get(key, ([], []))
        if _digest(lines) != row.samples_sha256:
            what = f"samples of {'/'.join(key[:3])}, process {row.process}"
            raise csvfile.refuse(samples_path(path), f"does not hold the {what}, as they were recorded in {path.name}")
        if not {"reference", "candidate"} <= {sample.arm for sample in parsed}:
            what = f"times of both arms of {'/'.join(key[:3])}, process {row.process}"
            raise csvfile.refuse(samples_path(path), f"does not hold {what}")
        samples[key] = tuple(parsed)
    return Run(path=path, rows=rows, samples=samples)


def read_rows(path: Path) -> list[ResultRow]:
    """Read and validate the rows alone. Raises ResultsError."""
    if not (lines := csvfile.read_table(path)):
        raise csvfile.refuse(path, "is empty")
    (_, header), *rest = lines
    _require_schema(path, header, rest)
    columns = [name for name in ROW_COLUMNS if name in header or name != LATER_COLUMN]
    csvfile.require_columns(path, header, columns)
    return [_parse_row(path, number, columns, cells) for number, cells in rest]


def _parse_row(path: Path, number: int, columns: Sequence[str], cells: Sequence[str]) -> ResultRow:
    row = csvfile.record(path, number, columns, cells, ResultRow)
    names: dict[str, Any] = {name: csvfile.one_line(getattr(row, name)) for name in NAME_COLUMNS}
    row = replace(row, **names)
    require_row(path, number, row)
    return row


def _require_schema(path: Path, header: list[str], lines: list[tuple[int, list[str]]]) -> None:
    if "schema_version" not in header:
        raise ResultsError(f"{path} is not a kbench results file: no column `schema_version`", LISTING)
    place = header.index("schema_version")
    for number, cells in lines:
        version = cells[place] if place < len(cells) else ""
        if version != str(SCHEMA_VERSION):
            found = f"line {number} has schema {version or 'unknown'}; this kbench reads schema {SCHEMA_VERSION} only"
            raise ResultsError(f"{path}: {found}", "measure again with `kbench run PROBLEM`")


def _read_samples(path: Path, *, needed: bool) -> dict[GroupKey, tuple[list[str], list[Sample]]]:
    beside, columns = samples_path(path), [*KEY_COLUMNS, *SAMPLE_COLUMNS]
    if not beside.is_file():
        if not needed:
            return {}
        why = f"{path.name} cannot be judged without its raw samples"
        raise ResultsError(f"{beside} is missing: {why}", f"git checkout -- {beside}")
    groups: dict[GroupKey, tuple[list[str], list[Sample]]] = {}
    for number, cells in csvfile.read_table(beside, columns):
        sample = csvfile.record(beside, number, columns, cells, Sample)
        problem, solution, case = map(csvfile.one_line, cells[: len(KEY_COLUMNS)])
        texts, parsed = groups.setdefault((problem, solution, case, sample.process), ([], []))
        texts.append(csvfile.line(cells))
        parsed.append(sample)
    return groups


def _digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def safe_stem(name: str) -> str:
    """Return a name as that of a file: letters of any alphabet, and what no shell minds, in at most 120 bytes."""
    stem = re.sub(r"[^\w.+-]+", "-", name.removesuffix(".csv")).strip("-.")
    return stem.encode(errors="ignore")[:120].decode(errors="ignore") or "run"


def _reserve(directory: Path, stem: str, *, is_named: bool) -> Path:
    """Create `stem.csv`, else `stem-2.csv`, and so on. Raises UsageError where a name was given and is taken."""
    path, number = directory / f"{stem}.csv", 1
    try:
        directory.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                path.touch(exist_ok=False)
            except FileExistsError:
                if is_named:
                    hint = f"choose another `--name`, or remove {path}"
                    raise UsageError(f"a run named `{stem}` exists already", hint) from None
                number += 1
                path = directory / f"{stem}-{number}.csv"
            else:
                return path
    except OSError as error:
        raise csvfile.write_failed(directory, error) from error
