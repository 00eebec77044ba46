"""Text for a terminal of a given width: sentences are broken between words, and what is copied stays on one line."""

import re
import textwrap

LEAST_WIDTH = 32
"""Least width of a text column of a table, and of a sentence; with less room the text goes below its row."""
LEAST_ROOM = 40
NARROWEST = 40
"""Narrower terminals break lines themselves."""
LEAST_BLANKS = 4
"""A cell with fewer blanks is a name or a number and is not broken."""

_KEPT = re.compile(r"`[^`\n]*`|\d (?:%|[mµn]?s|[kKMGT]?i?B)(?!\w)|± \S")
_LABEL = re.compile(r"\w+: ")
_BLANK = "\ue000"
"""Stands for a blank that no line is broken at."""


def broken(text: str, width: int, *, start: str = "", indent: str = "") -> list[str]:
    """Break a text between words into lines of a width, its first line after `start`, further ones after `indent`.

    Text in backticks stays whole, to be copied; so do words, and a number with its unit or `±`.
    """
    whole = _KEPT.sub(lambda found: found[0].replace(" ", _BLANK), text)
    lines = textwrap.wrap(
        whole,
        width,
        initial_indent=start.replace(" ", _BLANK),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_BLANK, " ") for line in lines]


def fit(text: str, width: int) -> str:
    """Break the long lines of a text for a terminal.

    A line of cells (two blanks between them) keeps its cells; a sentence behind them is broken below its beginning.
    Tables have been fitted before, and lines of logs (`| ...`) keep the columns that a compiler marks.
    """
    if width < NARROWEST:
        return text
    return "\n".join(fitted for line in text.split("\n") for fitted in _fit_line(line, width))


def _fit_line(line: str, width: int) -> list[str]:
    bare = line.lstrip(" ")
    indent = line[: len(line) - len(bare)]
    if len(line) <= width or bare.startswith("|"):
        return [line]
    cells = re.split(r"( {2,})", bare)
    if len(cells) == 1:
        return broken(bare, width, start=indent, indent=indent + ("  " if _LABEL.match(bare) else ""))
    first = next((i for i in range(2, len(cells), 2) if _is_sentence(cells[i])), None)
    if first is None:
        return [line]
    head, texts = indent + "".join(cells[:first]), [cells[first]]
    for gap, cell in zip(cells[first + 1 :: 2], cells[first + 2 :: 2], strict=True):
        if _is_sentence(cell):
            texts.append(cell)
        else:
            texts[-1] += gap + cell
    below = width - len(head) < LEAST_ROOM
    lines = [head.rstrip()] if below else []
    hanging = indent + "    " if below else " " * len(head)
    for text in texts:
        lines += broken(text, width, start=hanging if lines else head, indent=hanging)
    return lines


def _is_sentence(cell: str) -> bool:
    return len(cell) > LEAST_WIDTH and cell.count(" ") >= LEAST_BLANKS
