"""Output of a command: data to stdout, everything else to stderr. Words carry the meaning, colour repeats it."""

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self, TextIO

from kbench.core.errors import ExitCode, KbenchError, MachineError
from kbench.core.printable import printable
from kbench.devices.nvml import PACKAGES
from kbench.report.document import render_document
from kbench.report.prose import fit
from kbench.report.table import Table, as_markdown, as_text


class Format(StrEnum):
    """Format of the result on stdout."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    MD = "md"


_PAINT = (
    ("31;1", re.compile(r"^(?:error:|[A-Z]+(?:_[A-Z]+)* FAILED|GATE FAILED)|\b(?:SLOWER|NEW FAIL)\b", re.M)),
    ("31", re.compile(r"(?<=  )[A-Z]+_[A-Z_]+(?=  )|^(?:integrity|semantics|fail)\b|(?<=  )FAILED\b", re.M)),
    ("32", re.compile(r"\b(?:FASTER|NEWLY FIXED|GATE PASSED)\b|(?<=  )passed\b|^(?:passed|ok)\b", re.M)),
    ("33", re.compile(r"\b(?:UNCLEAR|NOT COMPARABLE)\b|^(?:warning|warn|conditioning|timing)\b", re.M)),
    ("36", re.compile(r"^hint:", re.M)),
    ("1", re.compile(r"^saved |(?<= )\S+\*(?=  |$)", re.M)),
)
"""SGR code and the words that it colours; applied to finished text, so that renderers need no colours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The two streams of one command, and its verbosity (-1 quiet, 0, 1 verbose)."""

    format: Format = Format.TEXT
    verbosity: int = 0

    @property
    def wants_json(self) -> bool:
        """True if stdout gets exactly one JSON document."""
        return self.format is Format.JSON

    @property
    def width(self) -> int | None:
        """Columns of the terminal that shows stdout; None if there is none."""
        return columns_of(sys.stdout)

    def data(self, text: str) -> None:
        """Print the result of the command as it is: a document, or a name to copy."""
        self._print(sys.stdout, text)

    def text(self, text: str) -> None:
        """Print the result of the command for people: long lines are broken on a terminal."""
        self.data(fitted(text, sys.stdout))

    def written(self, command: str, path: Path, hint: str | None = None) -> None:
        """Report the file that a command has written, and what to do with it."""
        if self.wants_json:
            self.data(render_document(command, status="ok", hint=hint, path=path))
            return
        self.data(str(path))
        if hint is not None:
            self.note(f"hint: {hint}")

    def show(
        self, *, text: Callable[[], str], json: Callable[[], str], csv: Callable[[], str], md: Callable[[], str]
    ) -> None:
        """Print a result in the selected format; empty text prints nothing."""
        shown = {Format.TEXT: text, Format.JSON: json, Format.CSV: csv, Format.MD: md}[self.format]()
        if self.format is not Format.TEXT:
            self.data(shown)
        elif shown:
            self.text(shown)

    def rendered(self, module: Any, *subject: Any, **document: Any) -> None:
        """Print a result by a module that has its `blocks`, its JSON and its CSV; `document` is for JSON alone."""
        self.show(
            text=lambda: as_text(module.blocks(*subject, verbosity=self.verbosity), self.width),
            json=lambda: module.render_json(*subject, **document),
            csv=lambda: module.render_csv(*subject),
            md=lambda: as_markdown(module.blocks(*subject, verbosity=self.verbosity)),
        )

    def records(
        self, command: str, shown: Table, results: Any, text: Callable[[], str] | None = None, **document: Any
    ) -> None:
        """Print records as a table, or as a document with `results`; `text` is what people get instead."""
        self.show(
            text=text or (lambda: shown.text(indent="", width=self.width)),
            json=lambda: render_document(command, status="ok", results=results, **document),
            csv=shown.csv,
            md=shown.markdown,
        )

    def note(self, text: str) -> None:
        """Print a note about the result, unless quiet."""
        if self.verbosity >= 0:
            self._print(sys.stderr, fitted(printable(text), sys.stderr))

    def error(self, error: KbenchError) -> None:
        """Print an error with its hint, each without line breaks of its own: they may quote what was typed."""
        text = f"error: {_on_a_line(error.message)}" + (f"\n\nhint: {_on_a_line(error.hint)}" if error.hint else "")
        self._print(sys.stderr, fitted(text, sys.stderr))

    def _print(self, stream: TextIO, text: str) -> None:
        _write(stream, paint(text) if self._colours(stream) else text)

    def _colours(self, stream: TextIO) -> bool:
        if os.environ.get("NO_COLOR") or (self.format is not Format.TEXT and stream is sys.stdout):
            return False
        return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


INTERRUPTED = KbenchError("interrupted", exit_code=ExitCode.INTERRUPTED)


class Ending:
    """Keeps what ends a `with` block early as its `error`, so that what is known by then is reported."""

    error: KbenchError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        caught = INTERRUPTED if isinstance(error, KeyboardInterrupt) else error
        self.error = caught if isinstance(caught, KbenchError) else None
        return self.error is not None


def columns_of(stream: TextIO) -> int | None:
    """Return the columns of the terminal that shows a stream, or what COLUMNS says; None if there is no terminal."""
    if not stream.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    try:
        return int(columns) if columns.isdecimal() else os.get_terminal_size(stream.fileno()).columns or None
    except OSError:  # a stand-in for a terminal
        return None


def fitted(text: str, stream: TextIO) -> str:
    """Break the long lines of a text for a terminal; files and pipes get them whole."""
    width = columns_of(stream)
    return text if width is None else fit(text, width)


def paint(text: str) -> str:
    """Colour the words of a finished text."""
    for code, words in _PAINT:
        text = words.sub(f"\033[{code}m\\g<0>\033[0m", text)
    return text


def _on_a_line(text: str) -> str:
    return printable(text).replace("\n", "\\n")


def _write(stream: TextIO, text: str) -> None:
    """Write a line; end with the environment's exit code if a result cannot be written, but not for `| head`."""
    try:
        stream.write(text + "\n")
        stream.flush()
    except OSError as error:
        silence(stream)
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            failure = lost(error)
            Output().error(failure)
            raise SystemExit(failure.exit_code) from error


def lost(error: OSError) -> KbenchError:
    """Make the error for a result that cannot be written."""
    return MachineError(f"stdout cannot be written: {error.strerror}", "send it where there is room")


def silence(stream: TextIO) -> None:
    """Discard further output, so that there is no second error when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def missing_package(error: Exception) -> MachineError | None:
    """Make the error that names the package and what to type; None if something else is wrong."""
    if not isinstance(error, ModuleNotFoundError):
        return None
    module = (error.name or "kbench").partition(".")[0]
    if module == "kbench":
        return None
    package = PACKAGES.get(module, module)
    hint = f"`{sys.executable} -m pip install {package}`"
    return MachineError(f"the Python package `{package}` is not installed", hint)
