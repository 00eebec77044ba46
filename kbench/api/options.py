"""Keyword arguments of the Python interface: typed, checked before anything starts, defaults from the settings."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, TypedDict

from kbench.core.errors import UsageError, did_you_mean
from kbench.core.events import RunOptions
from kbench.core.levels import require_codes
from kbench.engine.options import options_from
from kbench.storage.settings import Settings

AS_COMMAND_LINE = {
    "quick": "`max_processes=1`",
    "set": "`overrides={...}`",
    "eval": "`eval_mode=True`",
    "budget": "`budget_s=...`",
}
"""Other names, in Python, of options of `kbench run`."""
POOL_OPTIONS = ("device", "require_sandbox", "trusted", "wait_for_device")
"""Options that are fixed when judges start; a single call cannot change them."""


class Options(TypedDict, total=False):
    """The fields of `kbench.core.events.RunOptions` that callers may set, with the accepted types."""

    device: str
    processes: int
    max_processes: int
    pairs: int
    precision: float
    budget_s: float | None
    mode: Literal["cold", "warm", "graph"]
    import_timeout_s: float
    build_timeout_s: float
    call_timeout_s: float | None
    timeout_s: float | None
    cases: str | Sequence[str]
    overrides: Mapping[str, Any]
    verify_only: bool
    trusted: bool
    require_sandbox: bool
    level: Literal["task", "module", "general"]
    accept: str | Sequence[str]
    backward: bool
    batch_invariant: bool
    require_custom: bool
    sanitize: bool | None
    allow_tf32: bool
    eval_mode: bool
    wait_for_device: bool
    results_dir: Path | str
    save: bool
    name: str | None


def make_options(settings: Settings, given: Mapping[str, Any]) -> RunOptions:
    """Combine arguments, settings and defaults, in this order; nothing is saved unless `save` is set.

    In `cases` and `accept` a string stands for a sequence of one. Raises UsageError.
    """
    from pydantic import TypeAdapter, ValidationError

    known = [field.name for field in fields(RunOptions)]
    for name in given:
        if name not in known:
            here = AS_COMMAND_LINE.get(name)
            raise UsageError(f"there is no option `{name}`", f"write {here}" if here else did_you_mean(name, known))
    alone = {name: (given[name],) for name in ("cases", "accept") if isinstance(given.get(name), str)}
    values = {"save": False, **given, **alone}
    options = options_from(settings, **values)
    try:
        checked = TypeAdapter(RunOptions).validate_python({name: getattr(options, name) for name in known})
    except ValidationError as error:
        first = error.errors()[0]
        named = ".".join(map(str, first["loc"]))
        raise UsageError(f"`{named}` is {first['input']!r}: {first['msg'].lower()}") from None
    if checked.processes > checked.max_processes:
        raise UsageError(f"`processes` is {checked.processes}, more than `max_processes`", "raise `max_processes`")
    return replace(checked, accept=require_codes(checked.accept))
