"""Flags: the flags of a command are the fields of a record, so that commands share them by inheritance."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, dataclass_transform, get_type_hints

import typer

from kbench.cli.output import Format, Output
from kbench.core.errors import UsageError
from kbench.storage import settings
from kbench.storage.settings import Settings

FLAG, NAME = "flag", "name"


def option(spec: str, text: str, *, default: Any = None, **more: Any) -> Any:
    """Declare the flag of a field: `--name METAVAR`, `--name -n` or `--on/--off`, and its help text."""
    words = spec.split()
    names = [word for word in words if word.startswith("-")]
    metavar = next((word for word in words if word not in names), None)
    flag = typer.Option(*names, metavar=metavar, help=text, **more)
    return field(default=default, metadata={FLAG: flag, NAME: names[0]})


def switch(spec: str, text: str, **more: Any) -> Any:
    """Declare a flag that is off unless it is given."""
    return option(spec, text, default=False, **more)


def argument(metavar: str, text: str, *, default: Any = MISSING, **more: Any) -> Any:
    """Declare the positional argument of a field; required without a default."""
    return field(default=default, metadata={FLAG: typer.Argument(metavar=metavar, help=text, **more)})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option, switch, argument))
class FlagsRecord:
    """Makes each class of flags a frozen record of its fields."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


class SettingsFlags(FlagsRecord):
    """The flag of every command that reads settings."""

    config: Path | None = option("--config FILE", "Settings file instead of the nearest pyproject.toml")

    def settings(self) -> Settings:
        """Read the settings that hold for this command."""
        return settings.load(self.config)


class DocumentFlags(SettingsFlags):
    """Flags of every command that prints or writes a document."""

    json: bool = switch("--json", "Print one JSON document, also on errors")
    quiet: bool = switch("--quiet -q", "Print verdicts only, and no hints")

    def output(self) -> Output:
        """Combine the flags that say what to print."""
        return Output(format=Format.JSON if self.json else Format.TEXT, verbosity=-int(self.quiet))


class OutputFlags(DocumentFlags):
    """Flags of every command that reports something."""

    format: Format = option("--format", "What to print on stdout", default=Format.TEXT)
    verbose: bool = switch("--verbose -v", "Show more details")

    def output(self) -> Output:
        """Combine the flags that say what to print. Raises UsageError for two flags that contradict each other."""
        if self.json and self.format not in {Format.TEXT, Format.JSON}:
            raise UsageError(f"`--json` contradicts `--format {self.format.value}`", "give one of them")
        if self.verbose and self.quiet:
            raise UsageError("`--verbose` contradicts `--quiet`", "give one of them")
        return Output(
            format=Format.JSON if self.json else self.format,
            verbosity=int(self.verbose) - int(self.quiet),
        )


Flags = TypeVar("Flags", bound=SettingsFlags)


def command(kind: type[Flags]) -> Callable[[Callable[[Flags], int]], Callable[..., int]]:
    """Give a function of a flags record the signature that typer needs; help shows inherited flags last."""
    hints = get_type_hints(kind)
    owner = {
        name: place for place, cls in reversed(list(enumerate(kind.__mro__))) for name in inspect.get_annotations(cls)
    }
    parameters = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if one.default is MISSING else one.default,
            annotation=Annotated[hints[one.name], one.metadata[FLAG]],
        )
        for one in sorted(fields(kind), key=lambda one: owner[one.name])
    ]

    def wrap(function: Callable[[Flags], int]) -> Callable[..., int]:
        @functools.wraps(function)
        def call(**values: Any) -> int:
            return function(kind(**values))

        call.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return call

    return wrap
