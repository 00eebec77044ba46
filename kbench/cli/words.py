"""The words of the command line that a shell wants completed."""

import os


def completing() -> list[str] | None:
    """Return the words after the program's name: bash sets one variable, zsh and fish another; None otherwise."""
    text = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS")
    return None if text is None else text.split()[1:]
