"""Names and paths of problems and solutions: shipped, from entry points, from the settings, from a path.

Nothing is imported. The files that belong to a problem `softmax.py` in a folder `D` are `D/softmax/*.py`,
`D/solutions/softmax/*.py` and `D/../solutions/softmax/*.py`; the package itself is laid out in the last way.
"""

import difflib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal

from kbench.core.errors import PluginError, UsageError
from kbench.plugins import source
from kbench.plugins.source import Source, did_you_mean
from kbench.storage.settings import Settings

Kind = Literal["problem", "solution"]
Origin = Literal["kbench", "entry point", "settings", "path"]

BUILTINS = {
    "eager": "The reference itself, as plain PyTorch runs it",
    "compile": "The reference through torch.compile",
    "compile-max-autotune": "The reference through torch.compile, mode max-autotune",
}
"""Solutions that every problem has; they need no file of their own."""

_PACKAGE = Path(__file__).resolve().parent.parent
_REQUIRED: dict[Kind, str] = {"problem": "Model", "solution": "ModelNew"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One problem or solution that kbench can name."""

    name: str
    path: Path
    summary: str
    kind: Kind
    origin: Origin
    devices: tuple[str, ...]
    builtin: str | None = None
    """The key in `BUILTINS` of a solution without a file; its `path` is the problem's."""


def problems(settings: Settings) -> tuple[Entry, ...]:
    """List every problem that can be named, shipped ones first, each source in alphabetical order."""
    found = _unique(_problem_files(settings))
    return tuple(entry for path, origin in found if (entry := _listed(path, "problem", origin)) is not None)


def solutions(problem: Entry, settings: Settings) -> tuple[Entry, ...]:
    """List every solution of a problem: files first, the built-in ones last."""
    found = _unique(_solution_files(problem, settings))
    files = [entry for path, origin in found if (entry := _listed(path, "solution", origin)) is not None]
    return (*files, *_named_entry_points(problem), *(_builtin(problem, name) for name in BUILTINS))


def find_problem(name_or_path: str | Path, settings: Settings) -> Entry:
    """Find the problem of that name, or in that file.

    Raises:
        UsageError: no such name, with the nearest one as a hint; or a name that two files share.
        PluginError: the file cannot be parsed or defines no `Model`.
    """
    path = _as_path(name_or_path)
    if path is not None:
        return _read(path, "problem", "path")
    name = str(name_or_path)
    matches = [found for found in _unique(_problem_files(settings)) if found[0].stem == name]
    if matches:
        return _read(*_only(name, "problem", matches))
    if Path(f"{name}.py").is_file():
        raise UsageError(f"no problem named `{name}`", f"a file of your own needs its path: `{name}.py`")
    known = [entry.name for entry in problems(settings)]
    raise UsageError(
        f"no problem named `{name}`", did_you_mean(name, known, listing="`kbench list` shows all problems")
    )


def find_solution(problem: Entry, name_or_path: str | Path, settings: Settings) -> Entry:
    """Find the solution of that name, or in that file, for `problem`.

    Raises:
        UsageError: no such name, with the nearest one as a hint; or a name that two files share.
        PluginError: the file cannot be parsed or defines no `ModelNew`.
    """
    path = _as_path(name_or_path)
    if path is not None:
        return _read(path, "solution", "path")
    name = str(name_or_path)
    if name in BUILTINS:
        return _builtin(problem, name)
    matches = [found for found in _unique(_solution_files(problem, settings)) if found[0].stem == name]
    if matches:
        return _read(*_only(name, "solution", matches))
    known = solutions(problem, settings)
    for entry in known:
        if entry.name == name:
            return entry
    if Path(f"{name}.py").is_file():
        raise UsageError(
            f"`{problem.name}` has no solution named `{name}`", f"a file of your own needs its path: `{name}.py`"
        )
    listing = f"`kbench list {problem.name}` shows its solutions"
    raise UsageError(
        f"`{problem.name}` has no solution named `{name}`",
        did_you_mean(name, [entry.name for entry in known], listing=listing),
    )


def case_table(problem: Entry) -> dict[str, dict[str, Any]]:
    """Read the constants that each case of a problem overrides; `{"default": {}}` for a file without CASES.

    Raises:
        PluginError: CASES is not a literal, or sets a name that the file does not define.
    """
    return source.parse(problem.path).cases


def constants(problem: Entry) -> dict[str, Any]:
    """List the module constants that `--set` and CASES may override, with the values that the file gives."""
    return source.parse(problem.path).constants


def problem_names(settings: Settings) -> tuple[str, ...]:
    """Offer names for shell completion: from file names alone, nothing is parsed."""
    return tuple(path.stem for path, _ in _unique(_problem_files(settings)))


def solution_names(problem: str, settings: Settings) -> tuple[str, ...]:
    """Offer names of a problem's solutions for shell completion: from file names alone, nothing is parsed."""
    path = _as_path(problem)
    if path is None:
        path = next((found for found, _ in _problem_files(settings) if found.stem == problem), None)
    if path is None:
        return tuple(BUILTINS)
    entry = Entry(name=path.stem, path=path, summary="", kind="problem", origin="path", devices=source.DEVICES)
    return (*(found.stem for found, _ in _unique(_solution_files(entry, settings))), *BUILTINS)


def _problem_files(settings: Settings) -> Iterator[tuple[Path, Origin]]:
    yield from _python_files(_PACKAGE / "problems", "kbench")
    for place in _entry_point_places("kbench.problems"):
        yield from _python_files(place, "entry point")
    for place in settings.paths:
        yield from _python_files(place, "settings")
        yield from _python_files(place / "problems", "settings")


def _solution_files(problem: Entry, settings: Settings) -> Iterator[tuple[Path, Origin]]:
    name = problem.name
    yield from _python_files(_PACKAGE / "solutions" / name, "kbench")
    for place in _entry_point_places("kbench.solutions"):
        yield from _python_files(place / name, "entry point")
    for place in settings.paths:
        folder = place.parent if place.suffix == ".py" else place
        yield from _python_files(folder / "solutions" / name, "settings")
        yield from _python_files(folder / name, "settings")
    beside = problem.path.resolve().parent
    for folder in (beside / name, beside / "solutions" / name, beside.parent / "solutions" / name):
        yield from _python_files(folder, "path")


def _python_files(place: Path, origin: Origin) -> Iterator[tuple[Path, Origin]]:
    """`place` itself where it is a Python file, else the public ones in that folder."""
    if place.suffix == ".py" and place.is_file():
        yield place, origin
    elif place.is_dir():
        yield from ((path, origin) for path in sorted(place.glob("*.py")) if not path.name.startswith("_"))


def _unique(found: Iterator[tuple[Path, Origin]]) -> list[tuple[Path, Origin]]:
    """Count a file that was reached in two ways once, by the first."""
    seen: dict[Path, tuple[Path, Origin]] = {}
    for path, origin in found:
        # Unlike `resolve`, this takes a circle of links as it is.
        seen.setdefault(Path(os.path.realpath(path)), (path, origin))
    return list(seen.values())


def _only(name: str, kind: Kind, matches: Sequence[tuple[Path, Origin]]) -> tuple[Path, Kind, Origin]:
    if len(matches) > 1:
        places = " and ".join(str(path) for path, _ in matches)
        raise UsageError(f"more than one {kind} is named `{name}`: {places}", "give the path of the one you mean")
    path, origin = matches[0]
    return path, kind, origin


def _as_path(name_or_path: str | Path) -> Path | None:
    text = str(name_or_path)
    looks_like_path = isinstance(name_or_path, Path) or text.endswith(".py") or "/" in text or "\\" in text
    return Path(name_or_path).expanduser() if looks_like_path else None


def _read(path: Path, kind: Kind, origin: Origin) -> Entry:
    if path.is_dir():
        raise PluginError(f"{path} is a folder, not a {kind}", f"give a file in it, such as `{path}/NAME.py`")
    if not path.exists():
        raise UsageError(f"no {kind} file {path}", _nearest_file(path))
    parsed = source.parse(path)
    required = _REQUIRED[kind]
    if required not in parsed.names:
        other: Kind = "solution" if kind == "problem" else "problem"
        swapped = f"; it looks like a {other}" if _REQUIRED[other] in parsed.names else ""
        raise PluginError(
            f"{path} defines no class `{required}`, so it is not a {kind}{swapped}",
            f"`kbench new {kind}` writes a file to start from",
        )
    missing = {"get_inputs", "get_init_inputs"} - parsed.names if kind == "problem" else set()
    if missing:
        raise PluginError(
            f"{path} defines no `{min(missing)}`, so it is not a problem",
            "a problem has `Model`, `get_inputs()` and `get_init_inputs()`, as in KernelBench",
        )
    return _entry(parsed, kind, origin)


def _nearest_file(path: Path) -> str:
    """Word a hint for a file that is not there; names that share no more than their ending are not near."""
    near = difflib.get_close_matches(path.stem, [beside.stem for beside in path.parent.glob("*.py")], n=1, cutoff=0.7)
    if near:
        return f"did you mean `{path.with_name(f'{near[0]}.py')}`?"
    return "check the path" if path.parent.is_dir() else f"there is no folder {path.parent}"


def _listed(path: Path, kind: Kind, origin: Origin) -> Entry | None:
    """Make an entry for a listing: files of other kinds are left out, broken ones say so in their summary."""
    try:
        parsed = source.parse(path)
        return _entry(parsed, kind, origin) if _REQUIRED[kind] in parsed.names else None
    except PluginError as error:
        broken = f"unusable: {error.message.removeprefix(str(path)).lstrip(',: ')}"
        return Entry(name=path.stem, path=path, summary=broken, kind=kind, origin=origin, devices=source.DEVICES)


def _entry(parsed: Source, kind: Kind, origin: Origin) -> Entry:
    return Entry(
        name=parsed.path.stem,
        path=parsed.path.absolute(),  # children run in folders of their own
        summary=parsed.summary,
        kind=kind,
        origin=origin,
        devices=parsed.devices if kind == "solution" else source.DEVICES,
    )


def _builtin(problem: Entry, name: str) -> Entry:
    return Entry(
        name=name,
        path=problem.path,
        summary=BUILTINS[name],
        kind="solution",
        origin="kbench",
        devices=source.DEVICES,
        builtin=name,
    )


def _entry_point_places(group: str) -> list[Path]:
    """Locate folders and files that the entry points of `group` name as dotted modules."""
    return [place for point in entry_points(group=group) if (place := _locate(point)) is not None]


def _named_entry_points(problem: Entry) -> list[Entry]:
    """List solutions whose entry point names one file: `"softmax/fast" = "package.module"`."""
    found = []
    for point in entry_points(group="kbench.solutions"):
        owner, _, name = point.name.partition("/")
        place = _locate(point) if owner == problem.name and name else None
        if place is not None and place.is_file():
            entry = _listed(place, "solution", "entry point")
            found += [] if entry is None else [replace(entry, name=name)]
    return found


def _locate(point: EntryPoint) -> Path | None:
    """Locate file or folder of the entry point's module, found without importing its package."""
    top, *rest = point.module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None:
        return None
    if not rest and spec.origin and not spec.submodule_search_locations:
        return Path(spec.origin)
    for root in spec.submodule_search_locations or ():
        place = Path(root).joinpath(*rest)
        if place.with_suffix(".py").is_file() and rest:
            return place.with_suffix(".py")
        if place.is_dir():
            return place
    return None
