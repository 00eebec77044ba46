"""Commands whose parser is cheap while a shell completes a word, and whose long help comes in groups."""

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from kbench.cli.help_groups import sections

SHOWS_ALL = "kbench.help_all"


class _AsTyped:
    """Gives completion the words as they were typed, unconverted.

    Converting values imports pydantic, which takes longer than everything else that completion does.
    """

    def parse_args(self: Any, ctx: Any, args: list[str]) -> list[str]:
        """Parse `args` into `ctx`: for completion as they were typed, unconverted and unchecked."""
        if ctx.resilient_parsing:
            for parameter in self.get_params(ctx):
                parameter.process_value = _as_typed
        words: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return words


def _as_typed(_ctx: Any, value: Any) -> Any:
    return value


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
        shown = [("Arguments", arguments), *sections(options, everything=SHOWS_ALL in ctx.meta)]
        for title, names in shown:
            records = [record for name in names if (record := parameters[name].get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        hidden = len(parameters) - sum(len(names) for _, names in shown)
        if hidden:
            formatter.write_paragraph()
            formatter.write_text(f"`{ctx.command_path} --help-all` shows {hidden} more options.")


class Group(_AsTyped, TyperGroup):
    """A group of commands."""
