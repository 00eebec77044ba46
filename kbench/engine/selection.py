"""Selection of what a sweep judges, from names, folders, globs, a manifest or texts, as pairs. Nothing is imported."""

import csv
import glob
import hashlib
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from kbench.catalog import registry
from kbench.catalog.places import BUILTINS, provider_of
from kbench.core.errors import NothingSelectedError, UsageError
from kbench.storage import csvfile
from kbench.storage.settings import Settings

MANIFESTS = (".csv", ".jsonl", ".ndjson")
SEPARATORS = "._-@"
"""Characters that may separate a problem's name from the rest of a solution's name."""
FIELDS = frozenset({"problem", "solution", "entry", "name", "claim", "tags", "problem_source", "source"})
LONGEST_SOURCE = 4 << 20
PAIR_ALL = "`--pair all` judges every solution of every problem"
MOST_OF_A_NAME = 60
PairBy = Literal["name", "all"]
"""Which solutions belong to which problems. `name`: solutions whose file name is or begins with the problem's name, or
whose folder has that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SolutionPair:
    """A problem and a solution, each by name or path."""

    problem: str
    solution: str
    entry: str | None = None
    """Class or function of the solution's file; None for the one that is asked for of all."""
    claim: float | None = None
    tags: tuple[str, ...] = ()
    where: str = field(default="", compare=False)
    """The line of the manifest that has it."""


def pairs(
    problems: Sequence[str], solutions: Sequence[str], pairing: PairBy | None, settings: Settings
) -> tuple[list[SolutionPair], list[str]]:
    """Return the pairs to judge, in the order of the problems, and notes on files that are left out.

    Without `solutions`: each problem's own. Without `pairing`: folders and globs pair by name, all else all with all.
    Raises UsageError for a path that does not exist, and NothingSelectedError if no pair is left.
    """
    found_problems = [name for place in problems for name in expand(place, settings, "problem")]
    if not solutions:
        own = [pair for name in found_problems for pair in _own(name, settings)]
        return _some(own), []
    found = [name for place in solutions for name in expand(place, settings, "solution")]
    many = any(Path(place).expanduser().is_dir() or (_is_glob(place) and "/" in place) for place in solutions)
    if (pairing or ("name" if many else "all")) == "all":
        return _some([SolutionPair(problem=p, solution=s) for p in found_problems for s in found]), []
    stems = {Path(name).stem: name for name in found_problems}
    owners = {name: owner_of(Path(name), stems) for name in found if name not in BUILTINS}
    by_problem = {
        name: [one for one in found if one in BUILTINS or stems.get(owners[one] or "") == name]
        for name in found_problems
    }
    unowned = [name for name in found if name in owners and owners[name] is None]
    notes = []
    if unowned:
        are = "solution matches" if len(unowned) == 1 else "solutions match"
        notes.append(f"{len(unowned)} {are} no problem by name, such as {unowned[0]}; {PAIR_ALL}")
    without = [name for name, of_problem in by_problem.items() if not of_problem]
    if without:
        have = "problem has" if len(without) == 1 else "problems have"
        notes.append(f"{len(without)} {have} no solution by name, such as {without[0]}")
    hint = PAIR_ALL if unowned else None
    return _some([SolutionPair(problem=p, solution=s) for p, names in by_problem.items() for s in names], hint), notes


def owner_of(solution: Path, problems: Iterable[str]) -> str | None:
    """Return the longest problem that a path names: `19_ReLU/fast.py`, `19_ReLU_3.py`, but not `19_ReLU6.py`."""

    def names(text: str, problem: str) -> bool:
        return text == problem or (text.startswith(problem) and text[len(problem)] in SEPARATORS)

    fitting = [name for name in problems if names(solution.stem, name) or solution.parent.name == name]
    return max(fitting, key=len, default=None)


def expand(place: str, settings: Settings, kind: str) -> list[str]:
    """Return the names and paths that a file, a folder (2 before 10) or a glob selects. Raises UsageError for none."""
    path = Path(place).expanduser()
    if path.is_dir():
        return _files([path], f"{place} holds no Python file")
    if _is_glob(place):
        if "/" in place or place.endswith(".py"):
            return _files([Path(found) for found in glob.glob(str(path))], f"`{place}` matches nothing")  # noqa: PTH207
        if kind == "problem":
            listed = [entry.name for entry in registry.problems(settings) if fnmatchcase(entry.name, place)]
            if listed:
                return listed
        raise UsageError(f"`{place}` matches no {kind}", "`kbench list` shows all names; a glob of files has a `/`")
    if kind == "problem" and not path.exists():
        registry.find_problem(place, settings)  # raises, with the nearest name as a hint
    return [place]


def _files(places: Sequence[Path], otherwise: str) -> list[str]:
    found: list[Path] = []
    for place in sorted(places, key=natural):
        inside = place.rglob("*.py") if place.is_dir() else [place]
        found += sorted((p for p in inside if p.suffix == ".py" and not p.name.startswith(("_", "."))), key=natural)
    if not found:
        raise UsageError(otherwise, "name a file, a folder or a glob of files")
    return [str(path) for path in dict.fromkeys(found)]


def natural(path: Path) -> list[int | str]:
    """Return a key that sorts 2 before 10: texts and numbers in turn."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split("([0-9]+)", str(path)))]


def _is_glob(place: str) -> bool:
    return any(letter in place for letter in "*?[")


def _own(name: str, settings: Settings) -> list[SolutionPair]:
    problem = registry.find_problem(name, settings)
    files = [entry for entry in registry.solutions(problem, settings) if entry.builtin is None]
    return [SolutionPair(problem=name, solution=str(entry.path)) for entry in files]


def _some(found: list[SolutionPair], hint: str | None = None) -> list[SolutionPair]:
    if not found:
        hint = hint or "`--self` judges each problem against itself; `kbench list PROBLEM` shows its solutions"
        raise NothingSelectedError("these problems have no solution", hint)
    return found


def is_manifest(place: str) -> bool:
    """Return whether an argument is a manifest: a CSV or JSON lines file, or `-` for the standard input."""
    return place == "-" or place.endswith(MANIFESTS)


def read_manifest(text: str, name: str, folder: Path, sources: Path) -> list[SolutionPair]:
    """Read a manifest: lines with `problem` and `solution` (names, or paths from `folder`), `entry`, `claim`, `tags`.

    Texts in place of paths, `source` with a `name` and `problem_source`, are kept in `sources`. Raises UsageError.
    """
    lines = _csv_lines(text) if name.endswith(".csv") else _json_lines(text, name)
    if not lines:
        raise NothingSelectedError(f"{name} has no pair", "write one `problem` and `solution` on each line")
    return [_pair(line, f"{name}, line {number}", folder, sources) for number, line in lines]


def _csv_lines(text: str) -> list[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        return [(reader.line_num, {key: value for key, value in line.items() if value}) for line in reader]
    except csv.Error as error:
        hint = "write texts of solutions into JSON lines"
        raise UsageError(f"line {reader.line_num + 1} is not CSV: {error}", hint) from None


def _json_lines(text: str, name: str) -> list[tuple[int, Mapping[str, Any]]]:
    found: list[tuple[int, Mapping[str, Any]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{name}, line {number} is not JSON: {error}", "write one object on each line") from None
        if not isinstance(values, dict):
            raise UsageError(f"{name}, line {number} is not an object", 'write {"problem": ..., "solution": ...}')
        found.append((number, values))
    return found


def _pair(line: Mapping[str, Any], where: str, folder: Path, sources: Path) -> SolutionPair:
    unknown = sorted(str(key) for key in set(line) - FIELDS)
    if unknown:
        raise UsageError(f"{where} has a field `{unknown[0]}`", f"fields are {', '.join(sorted(FIELDS))}")
    for first, second in (("problem", "problem_source"), ("solution", "source")):
        if (first in line) == (second in line) and not (first == "problem" and first in line):
            raise UsageError(f"{where} needs `{first}`, or a text as `{second}`", "give one of the two")
    name = str(line.get("name") or "candidate")
    given = line.get("problem_source")
    problem = keep_text(str(given), str(line.get("problem") or "problem"), sources) if given else str(line["problem"])
    solution = keep_text(str(line["source"]), name, sources) if "source" in line else str(line["solution"])
    tags = line.get("tags") or ()
    if not isinstance(tags, str | list | tuple):
        raise UsageError(f"{where}: `tags` is {tags!r}", "tags are words with spaces between them, or a list")
    return SolutionPair(
        problem=_placed(problem, folder),
        solution=_placed(solution, folder),
        entry=str(line["entry"]) if line.get("entry") else None,
        claim=_number(line.get("claim"), where),
        tags=tuple(tags.split() if isinstance(tags, str) else map(str, tags)),
        where=where,
    )


def _number(value: Any, where: str) -> float | None:
    try:
        number = None if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if number is not None and not math.isfinite(number):
        raise UsageError(f"{where}: `claim` is {value!r}", "a claim is a number, such as 1.5")
    return number


def _placed(name: str, folder: Path) -> str:
    place, function = provider_of(name)
    if not place.endswith(".py") and "/" not in place:
        return name
    return str(folder / Path(place).expanduser()) + (f":{function}" if function else "")


def keep_text(text: str, name: str, sources: Path) -> str:
    """Save a text as a file named by its hash, so that the sweep can be resumed; return its path."""
    data = text.encode(errors="replace")
    if len(data) > LONGEST_SOURCE:
        raise UsageError(f"`{name}` has a source of {len(data)} bytes", f"the limit is {LONGEST_SOURCE} bytes")
    stem = "".join(letter if letter.isalnum() or letter in "_-." else "_" for letter in Path(name).stem)
    stem = stem.encode(errors="replace")[:MOST_OF_A_NAME].decode(errors="ignore")
    digest = hashlib.sha256(data).hexdigest()
    for shown in (digest[:12], digest):  # two texts with one beginning can be found in seconds
        path = sources / f"{stem or 'candidate'}-{shown}.py"
        if not path.exists():
            csvfile.make_folder(path)
            csvfile.replace_file(path, data.decode())
        if path.read_bytes() == data:
            break
    return str(path.absolute())


def keep_lines(text: str, sources: Path) -> str:
    """Save the lines of the standard input, so that the sweep can be resumed; return the file."""
    sources.mkdir(parents=True, exist_ok=True)
    path = sources / "stdin.jsonl"
    path.write_text(text, encoding="utf-8")
    return str(path)
