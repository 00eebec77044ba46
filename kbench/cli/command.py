"""How the words of the command line become parameters."""

from typing import Any

from typer.core import TyperCommand, TyperGroup


class _AsTyped:
    """Tells a shell's completion which words are taken, and no value.

    Converting values imports pydantic, which takes longer than all else that completing a word does.
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


class Command(_AsTyped, TyperCommand):
    """A command."""


class Group(_AsTyped, TyperGroup):
    """A group of commands."""
