"""Flags: the flags of a command are the fields of a record, so that commands share them by inheritance."""

import ast
import functools
import inspect
import math
import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from kbench.cli import completion
from kbench.cli.output import Color, Format, Output
from kbench.core.errors import UsageError
from kbench.storage import settings
from kbench.storage.runfiles import LATEST
from kbench.storage.settings import Settings

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|min|h)?")
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, None: 1.0}


def parse_duration(text: str) -> float:
    """Read `90`, `90s`, `1.5m` or `2h` as seconds."""
    match = _DURATION.fullmatch(str(text).strip())
    if match is None or float(match[1]) <= 0:
        raise typer.BadParameter(f"{text!r} is not a duration; write `90s` or `5m`")
    return float(match[1]) * _SECONDS[match[2]]


def parse_share(text: str) -> float:
    """Read `0.5%` or `0.005` as a share between 0 and 1."""
    share = _share(text)
    if not settings.is_share(share):
        raise typer.BadParameter(f"{text!r} is not a share; write `0.5%` or `0.005`")
    return share


def parse_slowdown(text: str) -> float:
    """Read `5%`, `0.05` or `187%` as a slow-down; one of 100 % and more needs the sign, because `5` may mean 5 %."""
    slowdown = _share(text)
    if not 0 < slowdown < (math.inf if "%" in str(text) else 1):
        raise typer.BadParameter(f"{text!r} is not a slow-down; write `5%`")
    return slowdown


def _share(text: str) -> float:
    """Read a number, or a percentage as its hundredth; NaN if it is neither."""
    try:
        return float(str(text).strip().removesuffix("%")) / (100 if "%" in str(text) else 1)
    except ValueError:
        return math.nan


def parse_overrides(pairs: list[str]) -> dict[str, Any]:
    """Read `NAME=VALUE` pairs; values are Python literals."""
    overrides: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = (part.strip() for part in pair.partition("="))
        if not equals or not name.isidentifier():
            raise UsageError(f"`--set {pair}` is not NAME=VALUE", "write for example `--set batch_size=4`")
        try:
            overrides[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            computed = text[:1].isdigit() or not text
            raise UsageError(
                f"`--set {pair}`: {text!r} is not a Python literal",
                f"write the value itself: `--set {name}=4`"
                if computed
                else f"text needs quotes inside the quotes: `--set \"{name}='{text}'\"`",
            ) from None
    return overrides


FLAG = "flag"
"""Key of the flag in the metadata of a field."""


def option(spec: str, text: str, *, default: Any = None, **more: Any) -> Any:
    """Declare the flag of a field: `--name METAVAR`, `--name -n` or `--on/--off`, and its help text."""
    words = spec.split()
    names = [word for word in words if word.startswith("-")]
    metavar = next((word for word in words if word not in names), None)
    flag = typer.Option(*names, metavar=metavar, help=text, **more)
    return field(default=default, metadata={FLAG: flag})


def switch(spec: str, text: str, **more: Any) -> Any:
    """Declare a flag that is off unless it is given."""
    return option(spec, text, default=False, **more)


def argument(metavar: str, text: str, *, default: Any = MISSING, **more: Any) -> Any:
    """Declare the positional argument of a field; required without a default."""
    return field(default=default, metadata={FLAG: typer.Argument(metavar=metavar, help=text, **more)})


seconds_option = functools.partial(option, parser=parse_duration)
share_option = functools.partial(option, parser=parse_share)
problem_argument = functools.partial(
    argument, "PROBLEM", "Problem: a name or a path", autocompletion=completion.problems
)
run_argument = functools.partial(
    argument,
    "RUN",
    "Name of a run, its unique beginning or ending, a path, or @latest~N",
    default=LATEST,
    autocompletion=completion.runs,
)
cases_option = functools.partial(option, "--case GLOB", "Only cases whose name matches; repeatable")
set_option = functools.partial(option, "--set NAME=VALUE", "Override a constant of the problem; repeatable")
device_option = functools.partial(option, "--device DEVICE", "auto, cpu, cuda or cuda:INDEX")
trusted_option = functools.partial(switch, "--trusted", "Trust the solution: run it with a lighter sandbox")
results_option = functools.partial(option, "--results DIR", "Results folder")
slower_option = functools.partial(share_option, "--slower SHARE", "Smallest slow-down that counts (default 0.5%)")
time_option = functools.partial(option, "--time", "Time to compare (default device)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFlags:
    """The flag of every command that reads settings."""

    config: Path | None = option("--config FILE", "Settings file instead of the nearest pyproject.toml")

    def settings(self) -> Settings:
        """Read the settings that hold for this command."""
        return settings.load(self.config)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFlags(SettingsFlags):
    """Flags of every command that writes a file and reports nothing else."""

    json: bool = switch("--json", "Print one JSON document, also on errors")
    quiet: bool = switch("--quiet -q", "Show no hints")

    def output(self) -> Output:
        """Combine the flags that say what to print."""
        return Output(format=Format.JSON if self.json else Format.TEXT, verbosity=-int(self.quiet))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFlags(SettingsFlags):
    """Flags of every command that reports something."""

    format: Format = option("--format", "What to print on stdout", default=Format.TEXT)
    json: bool = switch("--json", "Same as --format json: always one document")
    verbose: bool = switch("--verbose -v", "Show more details")
    quiet: bool = switch("--quiet -q", "Show verdicts only")
    color: Color = option("--color", "When to colour the output", default=Color.AUTO)

    def output(self) -> Output:
        """Combine the flags that say what to print. Raises UsageError for two flags that contradict each other."""
        if self.json and self.format not in {Format.TEXT, Format.JSON}:
            raise UsageError(f"`--json` contradicts `--format {self.format.value}`", "give one of them")
        if self.verbose and self.quiet:
            raise UsageError("`--verbose` contradicts `--quiet`", "give one of them")
        return Output(
            format=Format.JSON if self.json else self.format,
            verbosity=int(self.verbose) - int(self.quiet),
            color=self.color,
        )


Flags = TypeVar("Flags", bound=SettingsFlags)


def command(kind: type[Flags]) -> Callable[[Callable[[Flags], int]], Callable[..., int]]:
    """Give a function that takes one flags record the signature that typer needs for a command.

    The record's own flags come first in the help text, inherited ones after them.
    """
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
