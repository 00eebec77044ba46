"""Commands whose parser is cheap while a shell completes a word."""

from typing import Any

from typer.core import TyperCommand, TyperGroup


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


class Command(_AsTyped, TyperCommand):
    """A command."""


class Group(_AsTyped, TyperGroup):
    """A group of commands."""
