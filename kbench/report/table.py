"""Plain tables: columns aligned by spaces; no box, wrapping or truncation, so that pipes keep every cell."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from kbench.report.units import ABSENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column's heading, and whether its cells are aligned to the right, as numbers are."""

    title: str
    right: bool = False


def render_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], indent: str = "  ") -> str:
    """Align the cells below their headings; columns that say nothing in any row are left out."""
    used = [i for i, _ in enumerate(columns) if any(row[i] not in {"", ABSENT} for row in rows)]
    heads = [columns[i] for i in used]
    body = [[row[i] for i in used] for row in rows]
    widths = [max(_width(cell) for cell in (head.title, *(row[i] for row in body))) for i, head in enumerate(heads)]
    lines = []
    for cells in ([head.title for head in heads], *body):
        padded = [
            " " * (width - _width(cell)) + cell if head.right else cell + " " * (width - _width(cell))
            for cell, width, head in zip(cells, widths, heads, strict=True)
        ]
        lines.append((indent + "  ".join(padded)).rstrip())
    return "\n".join(lines)


def render_markdown_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """Write the same table for Markdown; cells are escaped, since names and messages are untrusted text."""
    heads = "| " + " | ".join(column.title for column in columns) + " |"
    rule = "|" + "|".join(" ---: " if column.right else " --- " for column in columns) + "|"
    body = ["| " + " | ".join(escape_markdown(cell) for cell in row) + " |" for row in rows]
    return "\n".join([heads, rule, *body])


def escape_markdown(text: str) -> str:
    """Make text harmless inside a Markdown table cell."""
    for character in "\\`*_{}[]<>|#":
        text = text.replace(character, "\\" + character)
    return " ".join(text.split())


def one_line(text: str) -> str:
    """Make untrusted text harmless on a terminal: one line, control characters escaped."""
    flat = " ".join(text.split())
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in flat)


def _width(text: str) -> int:
    """Columns that the text takes on a terminal: wide characters take two, combining ones none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
