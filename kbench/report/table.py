"""Plain tables: columns aligned by spaces, no box. A pipe gets every cell in one line; a terminal gets what fits."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol

from rich.cells import cell_len

from kbench.core.printable import printable
from kbench.report.prose import LEAST_WIDTH, broken
from kbench.report.units import ABSENT
from kbench.storage import csvfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its heading, whether it is aligned to the right, and its behaviour on a narrow terminal."""

    title: str
    right: bool = False
    wraps: bool = False
    spare: int = 0
    """Rank at which it may be left out, 0 for never: rank 1 goes first, and the rightmost of a rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Columns, and the text of their cells row by row."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    title: str = ""
    """Line above the table."""

    def text(self, *, indent: str = "  ", width: int | None = None) -> str:
        """Align the cells below their headings; columns that are empty in every row are left out.

        To fit a terminal's `width`, spare columns are left out, texts are wrapped, and finally put below their rows.
        """
        if not self.rows:
            return ""
        columns, used = self.columns, self.used
        widths = {i: max(cell_len(cell) for cell in (columns[i].title, *(row[i] for row in self.rows))) for i in used}
        below: list[int] = []
        if width is not None:
            widths, below = _fit(columns, widths, width - len(indent))
        lines = _row(columns, [column.title for column in columns], widths)
        for row in self.rows:
            lines += _row(columns, row, widths)
            for i in below:
                room = (width or 0) - len(indent)
                lines += broken(f"{columns[i].title}: {row[i]}", room, start=" " * 4, indent=" " * 6) if row[i] else []
        return "\n".join([*filter(None, [self.title]), *((indent + line).rstrip() for line in lines)])

    def markdown(self) -> str:
        """Write the table for Markdown; cells are escaped, because names and messages are untrusted text."""
        if not self.rows:
            return ""
        used = self.used or range(len(self.columns))
        lines = [
            [self.columns[i].title for i in used],
            ["---:" if self.columns[i].right else "---" for i in used],
            *([escape_markdown(row[i]) for i in used] for row in self.rows),
        ]
        title = [escape_markdown(self.title, keep_blanks=True), ""] if self.title else []
        return "\n".join([*title, *(f"| {' | '.join(line)} |" for line in lines)])

    def csv(self) -> str:
        """Write the table as CSV, with its headings."""
        return csvfile.table([column.title for column in self.columns], self.rows).rstrip("\n")

    @property
    def used(self) -> list[int]:
        """Places of the columns that are not empty in every row."""
        return [i for i, _ in enumerate(self.columns) if any(row[i] not in {"", ABSENT} for row in self.rows)]


def table(
    rows: Sequence[Mapping[str, str]],
    *,
    title: str = "",
    wraps: Collection[str] = (),
    spare: Mapping[str, int] | None = None,
) -> Table:
    """Make a table of cells by heading; `>` before one aligns to the right."""

    def column(name: str) -> Column:
        title = name.removeprefix(">")
        return Column(title=title, right=name != title, wraps=title in wraps, spare=(spare or {}).get(title, 0))

    names = [*rows[0]] if rows else []
    return Table(columns=[*map(column, names)], rows=[[row[name] for name in names] for row in rows], title=title)


def _row(columns: Sequence[Column], cells: Sequence[str], widths: dict[int, int]) -> list[str]:
    def padded(i: int, cell: str) -> str:
        gap = " " * (widths[i] - cell_len(cell))
        return gap + cell if columns[i].right else cell + gap

    parts = [broken(cells[i], widths[i]) if columns[i].wraps else [cells[i]] for i in widths]
    return ["  ".join(map(padded, widths, line)) for line in zip_longest(*parts, fillvalue="")]


def _fit(columns: Sequence[Column], widths: dict[int, int], room: int) -> tuple[dict[int, int], list[int]]:
    """Fit the columns to the width if possible; return their widths, and the texts that go below their rows."""
    fitted = dict(widths)

    def excess() -> int:
        return sum(fitted.values()) + 2 * (len(fitted) - 1) - room

    for i in sorted((i for i in widths if columns[i].spare), key=lambda i: (columns[i].spare, -i)):
        if excess() > 0:
            del fitted[i]
    texts = [i for i in fitted if columns[i].wraps]
    while excess() > 0 and texts and max(fitted[i] for i in texts) > LEAST_WIDTH:
        fitted[max(texts, key=lambda i: fitted[i])] -= 1
    if excess() <= 0:
        return fitted, []
    return {i: size for i, size in fitted.items() if i not in texts}, texts


class ReportPart(Protocol):
    """A part of a report that is no plain text."""

    def text(self, *, width: int | None = None) -> str:
        """Write it for a terminal."""

    def markdown(self) -> str:
        """Write it for Markdown."""


def as_text(blocks: Sequence[str | ReportPart], width: int | None = None) -> str:
    """Write the blocks of a report for a terminal, with a blank line between them; empty ones are left out."""
    texts = [block if isinstance(block, str) else block.text(width=width) for block in blocks]
    return "\n\n".join(filter(None, texts))


def as_markdown(blocks: Sequence[str | ReportPart]) -> str:
    """Write the same for Markdown: the first line is a heading, and a text of several lines a list."""
    texts: list[str] = []
    for block in blocks:
        if not isinstance(block, str):
            texts.append(block.markdown())
        elif block:
            lines = [_escaped_line(line) for line in block.splitlines()]
            heading, lines = ([f"### {lines[0]}"], lines[1:]) if not texts else ([], lines)
            texts += heading
            texts.append("\n".join(f"- {line}" for line in lines) if len(lines) > 1 else "".join(lines))
    return "\n\n".join(filter(None, texts))


def _escaped_line(line: str) -> str:
    """Escape a line but for what is in backticks, which is code to be copied, and which Markdown does not read."""
    parts = re.split(r"(`[^`]+`)", " ".join(line.split()))
    return "".join(part if place % 2 else escape_markdown(part, keep_blanks=True) for place, part in enumerate(parts))


def escape_markdown(text: str, *, keep_blanks: bool = False) -> str:
    """Make text harmless inside a Markdown table cell."""
    for character in "\\`*_{}[]<>|#":
        text = text.replace(character, "\\" + character)
    return text if keep_blanks else " ".join(text.split())


def one_line(text: str) -> str:
    """Make untrusted text harmless on a terminal: one line, control characters escaped."""
    return printable(" ".join(text.split()))
