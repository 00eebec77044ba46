"""`--resume`: a command that was broken off goes on with the flags that it was started with."""

import json
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kbench.cli.options import NAME, SettingsFlags
from kbench.core.errors import UsageError
from kbench.core.levels import Level

if TYPE_CHECKING:  # numpy, which completion does not need
    from kbench.engine.journal import Header

KeptFlags = TypeVar("KeptFlags", bound=SettingsFlags)
OPTIONS_OF_RESUMING = frozenset(
    {"resume", "strict", "format", "json", "verbose", "quiet", "results", "config", "name", "no_save"}
)
"""Flags that a resuming command sets itself; the others come from the command that was broken off."""


def arguments_of(flags: SettingsFlags, but: Collection[str] = OPTIONS_OF_RESUMING) -> dict[str, Any]:
    """Return the flags to keep in the journal."""
    return {"folder": str(Path.cwd()), **{f.name: getattr(flags, f.name) for f in fields(flags) if f.name not in but}}


def started_with(
    flags: KeptFlags, header: "Header", name: str, but: Collection[str] = OPTIONS_OF_RESUMING
) -> KeptFlags:
    """Return the flags that a command was started with; those that are not kept are the present ones."""
    kept = dict(header.arguments)
    folder = str(kept.pop("folder", ""))
    if folder != str(Path.cwd()):
        raise UsageError(f"the paths of this {header.command} are relative to {folder}", f"`cd {folder}`")
    known = {f.name for f in fields(flags)} - set(but)
    values = {name: value for name, value in kept.items() if name in known}
    _require_same(flags, header.command, name, values)
    if values.get("level") is not None:
        values["level"] = Level(values["level"])
    return replace(flags, **values)


def _require_same(flags: SettingsFlags, command: str, run: str, started: Mapping[str, Any]) -> None:
    for each in fields(flags):
        given = json.loads(json.dumps(getattr(flags, each.name), default=str))
        if each.name not in started or given in (each.default, started[each.name]):
            continue
        if each.name in {"problem", "solutions", "names"}:
            kept = f"`--resume {run}` judges what that {command} was started with, and other names are given"
            raise UsageError(kept, f"leave out the names, or start another {command}")
        name, was = each.metadata[NAME], started[each.name]
        before = "without it" if was in (None, False) else f"with `{name} {was}`"
        kept = f"`{name}` is given, and the {command} `{run}` was started {before}"
        raise UsageError(kept, f"leave it out, or start another {command}")
