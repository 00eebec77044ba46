"""CSV files: read strictly, replaced as a whole, safe for any text."""

import csv
import errno
import functools
import io
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from kbench.core.errors import MachineError, ResultsError
from kbench.core.printable import printable
from kbench.storage.json_values import reader_of
from kbench.storage.runfiles import LISTING

LONGEST_TEXT = 8000
"""Longest text cell in characters: messages of candidates have any length, and readers refuse above 131072."""

CONFLICT = re.compile(r"^(?:<{7}|>{7}|\|{7}|={7})(?: .*)?\r?$", re.M)
"""A line that git writes into a file where two sides of a merge differ."""
T = TypeVar("T")


def read_table(path: Path, columns: Sequence[str] | None = None) -> list[tuple[int, list[str]]]:
    """Cells of every line with its number; where `columns` are given, of those below this header, which it must have.

    Raises ResultsError, also for a file with an incomplete last line.
    """
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            text = stream.read()
    except FileNotFoundError:
        raise ResultsError(f"{path} does not exist", LISTING) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ResultsError(f"{path} cannot be read: {error}", LISTING) from error
    if "\0" in text:
        raise refuse(path, "is not text: it contains a NUL character")
    if text and not text.endswith("\n"):
        raise refuse(path, "is truncated: its last line has no end")
    if (mark := CONFLICT.search(text)) is not None:
        number = text.count("\n", 0, mark.start()) + 1
        hint = f"keep this branch's side with `git checkout --ours -- {path}`, or measure again"
        raise ResultsError(f"{path}, line {number}: a merge left its marks: `{mark[0][:40]}`", hint)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        lines = [(reader.line_num, cells) for cells in reader]
    except csv.Error as error:
        raise refuse(path, f"is not valid CSV in line {reader.line_num}: {error}") from error
    if columns is None:
        return lines
    require_columns(path, lines[0][1] if lines else [], columns)
    return lines[1:]


def record(path: Path, number: int, columns: Sequence[str], cells: Sequence[str], kind: Callable[..., T]) -> T:
    """Make a record of the cells of one line; columns that are no fields of it are left out.

    An empty cell is None but for a text, which is cleaned: it may be another program's. Raises ResultsError naming line
    and column.
    """
    from pydantic import ValidationError

    if len(cells) != len(columns):
        raise refuse(path, f"has {len(cells)} cells instead of {len(columns)} in line {number}")
    types = _types_of(kind)
    given = {name: cell for name, cell in zip(columns, cells, strict=True) if name in types}
    values = {name: _clean(cell) if types[name] is str else cell or None for name, cell in given.items()}
    try:
        found: T = reader_of(kind).validate_python(values)
    except ValidationError as error:
        column = str(error.errors()[0]["loc"][0])
        raise refuse(path, f"has {given[column][:40]!r} as `{column}` in line {number}") from None
    return found


_types_of = functools.cache(get_type_hints)


def refuse(path: Path, what: str) -> ResultsError:
    """Make the error for a file that kbench did not write this way."""
    return ResultsError(f"{path} {what}", hint=f"restore it with `git checkout -- {path}`, or measure again")


def require_columns(path: Path, found: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise ResultsError where a header has not the columns that kbench writes, naming those."""
    if list(found) == list(wanted):
        return
    missing = [f"no `{name}`" for name in wanted if name not in found]
    extra = [f"an unknown `{name[:40]}`" for name in found if name not in wanted]
    difference = ", ".join(missing[:3] + extra[:3]) or "another order"
    raise refuse(path, f"has other columns than kbench writes: {difference}")


def cell(value: Any) -> str:
    """Return the text of one value: None is empty, a float keeps every digit, control characters are escaped."""
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, str):
        return _clean(value)
    return str(value)


def _clean(text: str) -> str:
    """Escape what is not printable except newline and tab, and what makes a spreadsheet's formula.

    Texts come from candidates: control characters (U+009B as ESC), letters in reversed order, lone surrogates.
    """
    if len(text) > LONGEST_TEXT:
        text = text[:LONGEST_TEXT] + " …"
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    text = re.sub(r"\A[=+@-]", lambda match: f"\\x{ord(match[0]):02x}", text)
    return "".join(c if c in "\n\t" else printable(c) for c in text) if not text.isprintable() else text


def one_line(text: str) -> str:
    """Clean a name, a path or a code as a cell is cleaned, and escape its line breaks and tabs."""
    return _clean(text).replace("\n", r"\x0a").replace("\t", r"\x09")


def line(cells: Iterable[str]) -> str:
    """Make one line, quoted only where needed, ended by a newline."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_MINIMAL).writerow(cells)
    return buffer.getvalue()


def table(names: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Make the text of a table: a header, and lines of values."""
    return line(names) + "".join(line(map(cell, row)) for row in rows)


ELSEWHERE = "write elsewhere with `--results DIR`"


def make_folder(path: Path, way_out: str = ELSEWHERE) -> None:
    """Make the folder of a file that is to be written. Raises MachineError, with `way_out` as a hint."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_failed(path, error, way_out) from error


def replace_file(path: Path, text: str, way_out: str = ELSEWHERE) -> None:
    """Replace a file as a whole: a reader, also after a crash, sees the old one or the new one.

    The target of a link is replaced; a device or a pipe is written to. Raises MachineError, with `way_out` as a hint.
    """
    temporary: Path | None = None
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8", newline="")
            return
        path = Path(os.path.realpath(path))  # also where links form a loop
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as stream:
            temporary = Path(stream.name)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise write_failed(path, error, way_out) from error
        raise


def write_failed(path: Path, error: OSError, way_out: str = ELSEWHERE) -> MachineError:
    """Make the error for a file that cannot be written, with what to do about it."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        kept = f"; finished rows are in {path}" if path.exists() and path.stat().st_size else ""
        return MachineError(f"no room left on the disk for {path}", hint=f"free some, or {way_out}{kept}")
    why = os.strerror(error.errno) if error.errno else error
    if isinstance(error, FileExistsError):
        why = "there is a file of that name where a folder is needed"
    return MachineError(f"{path} cannot be written: {why}", hint=way_out)
