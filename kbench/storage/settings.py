"""`[tool.kbench]` of the nearest pyproject.toml: strict and typed."""

import dataclasses
import json
import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from kbench.core.errors import UsageError, did_you_mean
from kbench.core.events import MeasuringOptions
from kbench.core.levels import require_codes
from kbench.core.ranges import NO_OTHER_FIELD, OpenShare


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOverride:
    """`[tool.kbench.gate.override."PROBLEM/SOLUTION/CASE"]`, a glob: other margins for some cases."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_FIELD

    slower: OpenShare
    """Margin of these cases, as a share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings:
    """`[tool.kbench.gate]`: what counts as a regression, and what an undecided case does to the exit code."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_FIELD

    baseline: str = "main"
    """Name of the baseline to compare with."""
    slower: OpenShare | None = None
    """Margin as a share; absent: 0.005, and more where the device resolves less."""
    unclear: Literal["pass", "warn", "fail"] = "warn"
    """Result of an unclear case: nothing, a warning, or exit code 4."""
    missing: Literal["warn", "fail"] = "fail"
    """Result of a case that the baseline has and the run did not measure."""
    time: Literal["device", "wall"] = "device"
    """Which time of a call is compared: device time, or wall time of a plain loop, the host's work included."""
    override: dict[str, GateOverride] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of `[tool.kbench]`; `source` is the file it came from, None without one."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_FIELD

    paths: tuple[Path, ...] = ()
    """Files and folders with problems and solutions, relative to the settings file."""
    results: Path = Path("results")
    """Folder of results and baselines, relative to the settings file."""
    level: Literal["task", "module", "general"] = "module"
    """Level that a solution must hold."""
    accept: tuple[str, ...] = ()
    """Codes of properties that a solution may lack."""
    run: MeasuringOptions = field(default_factory=MeasuringOptions)
    gate: GateSettings = field(default_factory=GateSettings)
    source: Path | None = None


def load(config: Path | None = None, *, start: Path | None = None) -> Settings:
    """Read `config`, else the nearest pyproject.toml with `[tool.kbench]`, from `start` (the working folder) upwards.

    Relative paths become absolute by the folder of their file. Raises UsageError.
    """
    if config is not None:
        return _from_table(_read_table(config, required=True), config)
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        candidate = folder / "pyproject.toml"
        if candidate.is_file():
            table = _read_table(candidate, required=False)
            if table is not None:
                return _from_table(table, candidate)
    return Settings()


def cache_dir() -> Path:
    """Name the folder of builds and measured peaks: `KBENCH_CACHE`, else the user's cache folder."""
    override = os.environ.get("KBENCH_CACHE")
    if override:
        return Path(override).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("kbench")


def _read_table(path: Path, *, required: bool) -> dict[str, Any] | None:
    """Read the `[tool.kbench]` table; None if the file has none and `required` is false."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"no settings file {path}", "check the path after `--config`") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "use another file: `--config FILE`") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}", "correct that line") from error
    table = document.get("tool", {}).get("kbench")
    if table is None and required:
        raise UsageError(f"{path} has no [tool.kbench] table", "settings go below `[tool.kbench]`")
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{path}: tool.kbench is not a table", "settings go below `[tool.kbench]`")
    return table


def _from_table(table: dict[str, Any] | None, path: Path) -> Settings:
    # importing pydantic takes as long as the rest of the start-up, and most folders have no table
    from pydantic import TypeAdapter, ValidationError

    if "source" in (table or {}):
        raise UsageError(f"{path}: unknown setting `source`", _known_keys("", "source"))
    try:
        parsed = TypeAdapter(Settings).validate_json(json.dumps(table), strict=True)
    except TypeError:  # TOML has dates and times, JSON has not, and no setting is one
        raise UsageError(f"{path}: [tool.kbench] holds a date or a time", "write it in quotes") from None
    except ValidationError as error:
        unknown = [one for one in error.errors() if one["type"] == "unexpected_keyword_argument"]
        raise _explain((unknown or error.errors())[0], path) from None
    try:
        require_codes(parsed.accept)
    except UsageError as error:
        raise UsageError(f"{path}: `accept`: {error.message}", error.hint) from None
    base = path.resolve().parent
    paths = tuple(base / entry.expanduser() for entry in parsed.paths)
    for missing in (entry for entry in paths if not entry.exists()):
        raise UsageError(f"{path}: `paths` names {missing}, which does not exist", "correct the path, or remove it")
    return dataclasses.replace(parsed, paths=paths, results=base / parsed.results.expanduser(), source=path)


def _explain(problem: Any, path: Path) -> UsageError:
    keys = [str(part) for part in problem["loc"]]
    dotted = ".".join(keys)
    if problem["type"] == "unexpected_keyword_argument":
        return UsageError(f"{path}: unknown setting `{dotted}`", _known_keys(".".join(keys[:-1]), keys[-1]))
    return UsageError(f"{path}: `{dotted}` is {problem['input']!r}: {problem['msg'].lower()}")


def _known_keys(table: str, key: str) -> str | None:
    owner: Any = {"": Settings, "run": MeasuringOptions, "gate": GateSettings}.get(table, GateOverride)
    return did_you_mean(key, [item.name for item in dataclasses.fields(owner) if item.name != "source"], cutoff=0.5)
