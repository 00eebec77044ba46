"""Text for a terminal of a given width: sentences are broken between words, and what is copied stays on one line."""

import re
import textwrap

LEAST_WIDTH = 32
"""Least width of a text column of a table; with less room the text goes below its row."""
NARROWEST = 40
"""Narrower terminals break lines themselves."""
CELLS = " " * 4
"""Indent of what does not fit in a line of cells, which have two blanks between them."""

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
    """Break the long lines of a text for a terminal; lines of logs (`| ...`) keep the columns that a compiler marks."""
    if width < NARROWEST:
        return text
    return "\n".join(fitted for line in text.split("\n") for fitted in _fit_line(line, width))


def _fit_line(line: str, width: int) -> list[str]:
    bare = line.lstrip(" ")
    if len(line) <= width or bare.startswith("|"):
        return [line]
    indent = line[: len(line) - len(bare)]
    hanging = CELLS if "  " in bare else "  " if _LABEL.match(bare) else ""
    return broken(bare, width, start=indent, indent=indent + hanging)
