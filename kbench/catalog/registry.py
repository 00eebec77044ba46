"""Problems and solutions by name or path, as far as their files say what they are: nothing is imported."""

import contextlib
import difflib
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from kbench.catalog import source
from kbench.catalog.places import (
    BUILTINS,
    Found,
    Origin,
    as_path,
    module_file,
    problem_files,
    provider_of,
    solution_files,
)
from kbench.catalog.small_case import SMALL, size_roles, small_constants
from kbench.catalog.source import Source
from kbench.core.errors import PluginError, UsageError, did_you_mean
from kbench.core.model import Failed, Status
from kbench.core.printable import printable
from kbench.storage.runfiles import shown_path
from kbench.storage.settings import Settings

EntryKind = Literal["problem", "solution"]

DEFAULT_ENTRY = "ModelNew"
OTHER_ENTRIES = ("Model", "kernel_function")
"""Other entries of published solutions: the class `Model`, or a function of the inputs only."""
MOST_OFFERED = 3

PROBLEM_NAMES = frozenset({"Model", "get_inputs"})
_REQUIRED: dict[EntryKind, str] = {"problem": "Model", "solution": DEFAULT_ENTRY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One problem or solution that kbench can name."""

    name: str
    path: Path
    summary: str
    origin: Origin
    devices: tuple[str, ...] = source.DEVICES
    builtin: str | None = None
    """The key in `BUILTINS` of a solution without a file; its `path` is the problem's."""
    attribute: str = DEFAULT_ENTRY
    """The judged entry of a solution's file: a class, or a function that is the forward itself.

    `package.module:function` where the file is imported as that module.
    """

    def unsupported_on(self, device: str, problem: "Entry") -> Failed | None:
        """Return why a solution of a problem is not judged on a kind of device; None if it is."""
        if device in self.devices:
            return None
        reason = f"runs on {', '.join(self.devices)}, not on {device}; `kbench list {problem.typed}` shows what does"
        return Failed(status=Status.SKIPPED, reason=reason)

    @property
    def parsed(self) -> Source:
        """Its file as it is now, parsed. Raises PluginError."""
        return source.parse(self.path)

    @property
    def typed(self) -> str:
        """The word that names it on a command line."""
        return shlex.quote(self.recorded_path or self.name)

    @property
    def recorded_path(self) -> str:
        """Path of its file for a results file, relative if below the working folder; empty if shipped."""
        return "" if self.origin == "kbench" else shown_path(self.path)

    @property
    def owners(self) -> tuple[str, ...]:
        """Prefixes that make its name unique: the folders, and for a function its file."""
        real = self.path.resolve()
        is_part = self.builtin is None and real.stem not in {self.name, "__init__"}
        return (*real.parts[1:-1], *([real.stem] if is_part else []))

    @property
    def identity(self) -> tuple[Path, str]:
        """Its file and its part of that file, however it was named."""
        return self.path.resolve(), self.variant.rpartition(":")[2]

    @property
    def variant(self) -> str:
        """Key among the solutions of one file; empty for the default one."""
        return self.builtin or ("" if self.attribute == DEFAULT_ENTRY else self.attribute)


def problems(settings: Settings) -> tuple[Entry, ...]:
    """List every problem that can be named, shipped ones first, each source in alphabetical order."""
    found = problem_files(settings)
    return tuple(entry for path, origin in found if (entry := _listed(path, "problem", origin)) is not None)


def problems_in(folder: Path) -> tuple[Entry, ...]:
    """List the problem files of a folder, to be named by path; ignore other Python files."""
    found = []
    for path in sorted(folder.glob("*.py")):
        try:
            parsed = source.parse(path)
        except PluginError:
            continue
        if parsed.names >= PROBLEM_NAMES:
            found.append(replace(_entry(parsed, "problem", "path"), name=f"{name_of(path)}{path.suffix}"))
    return tuple(found)


def solutions(problem: Entry, settings: Settings) -> tuple[Entry, ...]:
    """List every solution of a problem: one in its own file first, other files, the built-in ones last."""
    found = solution_files(problem.path, settings)
    listed = (_listed(path, "solution", origin) for path, origin in found)
    files = [entry for entry in listed if entry is not None]
    return (*_own(problem), *files, *(builtin(problem, name) for name in BUILTINS))


def _own(problem: Entry) -> Iterator[Entry]:
    with contextlib.suppress(PluginError):  # a broken file is named in the list of problems
        parsed = problem.parsed
        if DEFAULT_ENTRY in parsed.names:
            yield _entry(parsed, "solution", problem.origin)


def find_problem(name_or_path: str | Path, settings: Settings) -> Entry:
    """Find the problem of that name, or in that file.

    Raises UsageError for an unknown or ambiguous name, PluginError for a file that is no problem.
    """
    path = as_path(name_or_path)
    if path is not None:
        return _read_problem(path, "path")
    name = str(name_or_path)
    if (found := _only(name, "problem", problem_files(settings))) is not None:
        return _read_problem(*found)
    known, listing = problems(settings), "`kbench list` shows all problems"
    raise _unknown(f"no problem named `{name}`", "problem", name, [Path(f"{name}.py")], known, listing)


def find_solution(problem: Entry, name_or_path: str | Path, settings: Settings, *, entry: str | None = None) -> Entry:
    """Find the solution of that name, or in that file. Raises what `find_problem` does.

    Judged is `entry`, else `ModelNew`, or `Model` where that is the only class.
    """
    name = str(name_or_path)
    place, attribute = provider_of(name)
    if attribute:
        return _provider(place, attribute, problem)
    path = as_path(name_or_path)
    if path is not None:
        return _read_solution(path, "path", problem, entry)
    if name in BUILTINS:
        return builtin(problem, name)
    if (found := _only(name, "solution", solution_files(problem.path, settings))) is not None:
        return _read_solution(*found, problem, entry)
    known = solutions(problem, settings)
    for one in known:
        if one.name == name:
            return one if entry is None else _read_solution(one.path, one.origin, problem, entry)
    message = f"`{problem.name}` has no solution named `{name}`"
    if "." in name and module_file(name) is not None:
        raise UsageError(message, f"name the function or class of the module: `{name}:FUNCTION`")
    file = f"{name}.py"
    places = [Path(file), Path(problem.typed).parent / file, Path("solutions", problem.name, file)]
    listing = f"`kbench list {problem.typed}` shows its solutions"
    raise _unknown(message, "solution", name, places, known, listing)


def _provider(place: str, attribute: str, problem: Entry) -> Entry:
    """Return the solution `file.py:function`, or `package.module:function`, under the name of the function."""
    path = as_path(place)
    target = attribute if path is not None else f"{place}:{attribute}"
    path = path or module_file(place)
    if path is None:
        hint = "modules are looked for in the current folder and in installed packages; a path ends in `.py`"
        raise UsageError(f"no module `{place}`", hint)
    found = _read_solution(path, "path", problem, target)
    if attribute in {DEFAULT_ENTRY, *OTHER_ENTRIES}:
        attribute = found.name if attribute == DEFAULT_ENTRY else f"{found.name}.{attribute}"
    return replace(found, name=attribute)


def with_unique_names(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return each solution once with a unique name: `a.my` and `b.my` for two `my`, with as many folders as needed.

    Folders do not separate several parts of one file: each gets the name of its part.
    """
    unique: dict[tuple[Path, str], Entry] = {}
    for entry in entries:
        unique.setdefault(entry.identity, entry)
    same = Counter((path, entry.name) for (path, _), entry in unique.items())
    for (path, part), entry in unique.items():
        if part and same[path, entry.name] > 1:
            unique[path, part] = replace(entry, name=part)
    dotted: dict[str, list[str]] = defaultdict(list)
    for entry in unique.values():
        dotted[entry.name].append(".".join((*entry.owners, entry.name)))
    found = []
    for entry in unique.values():
        folders, name = [*entry.owners], entry.name
        while folders and sum(one.endswith(f".{name}") for one in dotted[entry.name]) > 1:
            name = f"{folders.pop()}.{name}"
        found.append(replace(entry, name=name))
    return tuple(found)


def selectable_cases(problem: Entry) -> dict[str, dict[str, Any]]:
    """Return the cases of a problem, with a derived one `small` if the file has none and its sizes are known."""
    parsed = problem.parsed
    derived = None if SMALL in parsed.cases else small_constants(parsed.constants(), size_roles(parsed.tree))
    return parsed.cases | ({} if derived is None else {SMALL: derived})


def _only(name: str, kind: EntryKind, files: Sequence[Found]) -> Found | None:
    matches = [found for found in files if found[0].stem == name]
    if len(matches) > 1:
        places = " and ".join(str(path) for path, _ in matches)
        raise UsageError(f"more than one {kind} is named `{name}`: {places}", "give the path of the one you mean")
    return matches[0] if matches else None


def _unknown(
    message: str, kind: EntryKind, name: str, places: Sequence[Path], known: Sequence[Entry], listing: str
) -> UsageError:
    """Return the error of an unknown name. Raises PluginError for that of a folder, or of a file of another kind."""
    for own in places:
        if own.is_file():
            return UsageError(message, f"a file of your own needs its path: `{own}`")
    path = Path(name or "no file")
    _refuse_folder(path, kind)
    if path.is_file():
        raise PluginError(f"{path} is not a Python file, so it is not a {kind}", "its name must end in `.py`")
    names = [*(entry.name for entry in known), *map(str, path.parent.glob("*.py"))]
    return UsageError(message, did_you_mean(name, names, listing=listing))


def _refuse_folder(path: Path, kind: EntryKind) -> None:
    if path.is_dir():
        raise PluginError(f"{path} is a folder, not a {kind}", f"give a file in it, such as `{path}/NAME.py`")


def _parse(path: Path, kind: EntryKind) -> Source:
    _refuse_folder(path, kind)
    if path.is_symlink() and not path.exists():
        raise UsageError(f"{path} is a link that leads to no file", "check where it points: `ls -l`")
    if path.parts[:2] in {("/", "dev"), ("/", "proc")} and (kind == "solution" or path.parts[2:3] != ("shm",)):
        message = f"{path} is not the same file in every process: workers have a /dev and a /proc of their own"
        raise UsageError(message, "save what it holds elsewhere")
    if not path.exists():
        raise UsageError(f"no {kind} file {path}", _nearest_file(path))
    return source.parse(path)


def _read_solution(path: Path, origin: Origin, problem: Entry, asked: str | None) -> Entry:
    parsed = _parse(path, "solution")
    target = asked or _attribute(parsed)
    attribute = target.rpartition(":")[2]
    if attribute in parsed.names or parsed.binds_unseen:
        if (value := parsed.constants().get(attribute)) is not None:
            raise PluginError(f"`{attribute}` in {path} is {value!r}, not a function or a class", _offered(parsed))
        return _entry(parsed, "solution", origin, target)
    own = path.exists() and path.samefile(problem.path)
    usual = [name for name in (DEFAULT_ENTRY, *OTHER_ENTRIES) if name in parsed.names]
    others = [name for name in usual or parsed.modules or parsed.functions if not (own and name == "Model")]
    if attribute != DEFAULT_ENTRY:
        near = did_you_mean(attribute, [*parsed.functions, *parsed.classes], listing=_offered(parsed))
        raise PluginError(f"{path} defines no `{attribute}`", near)
    hint = "`kbench new solution PROBLEM NAME` writes a file to start from"
    if others:
        hint = f"name the solution: {', or '.join(f'`{path}:{name}`' for name in others[:MOST_OFFERED])}"
    swapped = _swapped(parsed, "problem")
    raise PluginError(f"{path} defines no class `{DEFAULT_ENTRY}`, so it is not a solution{swapped}", hint)


def _offered(parsed: Source) -> str:
    known = [*parsed.functions, *parsed.classes][:MOST_OFFERED]
    return f"it has {', '.join(f'`{name}`' for name in known)}" if known else "it has no function and no class"


def _swapped(parsed: Source, other: EntryKind) -> str:
    return f"; it looks like a {other}" if _REQUIRED[other] in parsed.names else ""


def _attribute(parsed: Source) -> str:
    """Return the judged entry of a file, if it is named without one."""
    is_model = parsed.classes == ["Model"] and not parsed.names & {DEFAULT_ENTRY, "kernel_function", "get_inputs"}
    return "Model" if is_model else DEFAULT_ENTRY


def _read_problem(path: Path, origin: Origin) -> Entry:
    parsed = _parse(path, "problem")
    if "Model" not in parsed.names and not parsed.binds_unseen:
        hint, swapped = "`kbench new problem NAME` writes a file to start from", _swapped(parsed, "solution")
        if swapped:
            hint = f"the problem comes first: `kbench verify PROBLEM {path}`"
        elif parsed.modules:
            hint = f"it has the class `{parsed.modules[-1]}`: rename it, or add `Model = {parsed.modules[-1]}`"
        raise PluginError(f"{path} defines no class `Model`, so it is not a problem{swapped}", hint)
    missing = PROBLEM_NAMES - parsed.names
    if missing and not parsed.binds_unseen:
        raise PluginError(
            f"{path} defines no {' and no '.join(f'`{name}`' for name in sorted(missing))}, so it is not a problem",
            "a problem has `Model` and `get_inputs()`, as in KernelBench, and `get_init_inputs()` if `Model` takes any",
        )
    return _entry(parsed, "problem", origin)


def _nearest_file(path: Path) -> str:
    """Return a hint for a missing file; names that share only their ending are not close."""
    near = difflib.get_close_matches(path.stem, [beside.stem for beside in path.parent.glob("*.py")], n=1, cutoff=0.6)
    if near:
        return f"did you mean `{path.with_name(f'{near[0]}.py')}`?"
    return "check the path" if path.parent.is_dir() else f"the folder does not exist: {path.parent}"


def name_of(path: Path) -> str:
    """Return the name of what a file holds: its stem or its package, printable and on one line."""
    stem = path.absolute().parent.name if path.stem == "__init__" else path.stem
    return printable(" ".join(stem.split()))


def _listed(path: Path, kind: EntryKind, origin: Origin) -> Entry | None:
    """Make an entry for a listing: files of other kinds are left out, broken ones say so in their summary."""
    try:
        parsed = source.parse(path)
        required = _attribute(parsed) if kind == "solution" else _REQUIRED[kind]
        return _entry(parsed, kind, origin, required) if required in parsed.names else None
    except PluginError as error:
        broken = f"unusable: {error.message.removeprefix(str(path)).lstrip(',: ')}"
        return Entry(name=name_of(path), path=path, summary=broken, origin=origin)


def _entry(parsed: Source, kind: EntryKind, origin: Origin, attribute: str = DEFAULT_ENTRY) -> Entry:
    return Entry(
        name=name_of(parsed.path),
        path=_whole(parsed.path),  # children run in folders of their own
        summary=parsed.summary,
        origin=origin,
        devices=parsed.devices if kind == "solution" else source.DEVICES,
        attribute=attribute if kind == "solution" else DEFAULT_ENTRY,
    )


def _whole(path: Path) -> Path:
    """Return a path from the root. In a child's own /tmp, `a/../b` does not exist if `a` is not visible."""
    absolute = path.absolute()
    return absolute.parent.resolve() / absolute.name if ".." in absolute.parts else absolute


def builtin(problem: Entry, name: str) -> Entry:
    """Return a built-in solution of a problem: its own model, as it is or compiled."""
    return Entry(name=name, path=problem.path, summary=BUILTINS[name], origin="kbench", builtin=name)
