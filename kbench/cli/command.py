"""Commands whose parser is cheap while a shell completes a word, and whose long help comes in groups."""

import os
from collections.abc import Collection, Iterator
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

SHOWS_ALL = "kbench.help_all"
GROUPS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "What to judge": (("self_", "pair", "case", "set_", "grid", "device"), ()),
    "What to do again": (("resume", "retry"), ()),
    "How far to go": (("until",), ("lanes", "jobs", "executor", "address")),
    "Is it right": (
        ("level", "backward"),
        ("accept", "batch_invariant", "require_custom", "sanitize", "allow_tf32", "eval_mode"),
    ),
    "How fast": (("quick", "precision", "budget"), ("baseline", "processes", "max_processes", "mode")),
    "Limits": ((), ("import_timeout", "build_timeout", "call_timeout", "timeout", "trusted")),
    "Output": (
        ("name", "json", "verbose"),
        ("quiet", "format", "results", "no_save", "strict", "config"),
    ),
}
"""Parameters by the name that the command's record gives them; the second of a pair needs `--help-all`."""


def completing() -> list[str] | None:
    """Return the words that a shell wants completed, after the program's name; None otherwise."""
    text = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS")
    return None if text is None else text.split()[1:]


class _AsTyped:
    """Gives completion the words as they were typed: converting them imports pydantic, which is slow."""

    def parse_args(self: Any, ctx: Any, args: list[str]) -> list[str]:
        """Parse `args` into `ctx`: for completion as they were typed, unconverted and unchecked."""
        if ctx.resilient_parsing:
            for parameter in self.get_params(ctx):
                parameter.process_value = lambda _ctx, value: value
        words: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return words


def show_all(context: typer.Context, value: bool) -> None:
    """Print the help with every option, and end."""
    if value:
        context.meta[SHOWS_ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit


class Command(_AsTyped, TyperCommand):
    """A command. One with `--help-all` lists its options in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options into a help text."""
        parameters = {parameter.name: parameter for parameter in self.get_params(ctx)}
        if "help_all" not in parameters:
            super().format_options(ctx, formatter)
            return
        arguments = [name for name, one in parameters.items() if one.param_type_name == "argument"]
        options = [name for name in parameters if name not in arguments]
        shown = [("Arguments", arguments), *_sections(options, everything=SHOWS_ALL in ctx.meta)]
        for title, names in shown:
            records = [record for name in names if (record := parameters[name].get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        hidden = len(parameters) - sum(len(names) for _, names in shown)
        if hidden:
            formatter.write_paragraph()
            formatter.write_text(f"`{ctx.command_path} --help-all` shows {hidden} more options.")


def _sections(names: Collection[str], *, everything: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield each group's title and its members of `names`; names without a group, such as `--help`, come last."""
    grouped = {name for first, rest in GROUPS.values() for name in (*first, *rest)}
    for title, (first, rest) in GROUPS.items():
        yield title, [name for name in (*first, *(rest if everything else ())) if name in names]
    yield "Help", [name for name in names if name not in grouped]


class Group(_AsTyped, TyperGroup):
    """A group of commands."""
