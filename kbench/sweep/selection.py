"""What a sweep is asked to judge: names, folders, globs, a manifest, or texts; as pairs of places, nothing imported."""

import csv
import glob
import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from kbench.core.errors import NothingSelectedError, UsageError
from kbench.plugins import registry
from kbench.plugins.places import BUILTINS
from kbench.storage.settings import Settings

MANIFESTS = (".csv", ".jsonl", ".ndjson")
SEPARATORS = "._-@"
"""What may stand between a problem's name and the rest of a solution's."""
FIELDS = frozenset({"problem", "solution", "name", "claim", "tags", "problem_source", "source"})
LONGEST_SOURCE = 4 << 20


class PairBy(StrEnum):
    """Which solutions belong to which problems."""

    NAME = "name"
    """Those of a problem's name: its stem, a folder of that name, or the beginning of its own name."""
    ALL = "all"
    MANIFEST = "manifest"


@dataclass(frozen=True, slots=True, kw_only=True)
class SolutionPair:
    """A problem and a solution, each by name or path."""

    problem: str
    solution: str
    claim: float | None = None
    tags: tuple[str, ...] = ()


def pairs(
    problems: Sequence[str], solutions: Sequence[str], pairing: PairBy | None, settings: Settings
) -> tuple[list[SolutionPair], list[str]]:
    """Return what is to be judged, in the order of the problems, and notes on what is left out.

    Without `solutions`, each problem's own that kbench finds by name; `pairing` is by name for folders and globs of
    files, else all with all.

    Raises UsageError for a place that is not there, and NothingSelectedError where no pair is left.
    """
    found_problems = [name for place in problems for name in expand(place, settings, "problem")]
    if not solutions:
        own = [pair for name in found_problems for pair in _own(name, settings)]
        return _some(own), []
    found = [name for place in solutions for name in expand(place, settings, "solution")]
    many = any(_is_many(place) for place in solutions)
    if (pairing or (PairBy.NAME if many else PairBy.ALL)) is PairBy.ALL:
        return _some([SolutionPair(problem=p, solution=s) for p in found_problems for s in found]), []
    stems = {Path(name).stem: name for name in found_problems}
    by_problem: dict[str, list[str]] = {name: [] for name in found_problems}
    strangers = []
    for solution in found:
        if solution in BUILTINS:
            for of_problem in by_problem.values():
                of_problem.append(solution)
            continue
        owner = owner_of(Path(solution), stems)
        if owner is None:
            strangers.append(solution)
        else:
            by_problem[stems[owner]].append(solution)
    notes = []
    if strangers:
        notes.append(f"{len(strangers)} solutions belong to no problem by their names, such as {strangers[0]}")
    without = [name for name, of_problem in by_problem.items() if not of_problem]
    if without:
        notes.append(f"{len(without)} problems have no solution by its name, such as {without[0]}")
    hint = "`--pair all` judges every solution of every problem" if strangers else None
    return _some([SolutionPair(problem=p, solution=s) for p, names in by_problem.items() for s in names], hint), notes


def owner_of(solution: Path, problems: Iterable[str]) -> str | None:
    """Return the problem that a solution's path names; the longest name wins. None for no problem.

    `19_ReLU.py`, `19_ReLU/fast.py` and `19_ReLU_sample_3.py` belong to `19_ReLU`; `19_ReLU6.py` does not.
    """

    def names(text: str, problem: str) -> bool:
        return text == problem or (text.startswith(problem) and text[len(problem)] in SEPARATORS)

    fitting = [name for name in problems if names(solution.stem, name) or solution.parent.name == name]
    return max(fitting, key=len, default=None)


def expand(place: str, settings: Settings, kind: str) -> list[str]:
    """Return the names and paths that a word of the command line stands for: one file, a folder's, or a glob's.

    Files of a folder come in the order of people: 2 before 10. Raises UsageError where there are none.
    """
    path = Path(place).expanduser()
    if path.is_dir():
        return _files([path], f"{place} holds no Python file")
    if any(letter in place for letter in "*?["):
        if "/" in place or place.endswith(".py"):
            return _files([Path(found) for found in glob.glob(str(path))], f"`{place}` matches nothing")  # noqa: PTH207
        if kind == "problem":
            from fnmatch import fnmatchcase

            listed = [entry.name for entry in registry.problems(settings) if fnmatchcase(entry.name, place)]
            if listed:
                return listed
        raise UsageError(f"`{place}` matches no {kind}", "`kbench list` shows all names; a glob of files has a `/`")
    return [place]


def _files(places: Sequence[Path], otherwise: str) -> list[str]:
    found: list[Path] = []
    for place in sorted(places, key=natural):
        inside = place.rglob("*.py") if place.is_dir() else [place]
        found += sorted((p for p in inside if p.suffix == ".py" and not p.name.startswith(("_", "."))), key=natural)
    if not found:
        raise UsageError(otherwise, "name a file, a folder or a glob of files")
    return [str(path) for path in dict.fromkeys(found)]


def natural(path: Path) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts 2 before 10."""
    parts: list[tuple[int, int, str]] = []
    number = ""
    for letter in [*str(path), ""]:
        if letter.isdecimal() and letter.isascii():
            number += letter
            continue
        if number:
            parts.append((0, int(number), ""))
            number = ""
        parts.append((1, 0, letter))
    return tuple(parts)


def _is_many(place: str) -> bool:
    return Path(place).expanduser().is_dir() or (any(letter in place for letter in "*?[") and "/" in place)


def _own(name: str, settings: Settings) -> list[SolutionPair]:
    problem = registry.find_problem(name, settings)
    files = [entry for entry in registry.solutions(problem, settings) if entry.builtin is None]
    return [SolutionPair(problem=name, solution=str(entry.path)) for entry in files]


def _some(found: list[SolutionPair], hint: str | None = None) -> list[SolutionPair]:
    if not found:
        hint = hint or "`--self` judges each problem against itself; `kbench list PROBLEM` shows its solutions"
        raise NothingSelectedError("no solution of these problems is there", hint)
    return found


# --- manifests ---------------------------------------------------------------------


def is_manifest(place: str) -> bool:
    """Say whether a word of the command line is a manifest: a CSV or JSON lines, or `-` for the standard input."""
    return place == "-" or place.endswith(MANIFESTS)


def read_manifest(text: str, name: str, folder: Path, sources: Path) -> list[SolutionPair]:
    """Read a manifest: lines with `problem` and `solution` (names, or paths from `folder`), `claim` and `tags`.

    A line may have texts in place of paths: `source` of the solution with a `name`, `problem_source` of the problem.
    They are kept in `sources`, by their hashes. Raises UsageError, with the line.
    """
    lines = _csv_lines(text) if name.endswith(".csv") else _json_lines(text, name)
    return _some([_pair(line, f"{name}, line {number}", folder, sources) for number, line in lines])


def _csv_lines(text: str) -> list[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    return [(reader.line_num, {key: value for key, value in line.items() if value}) for line in reader]


def _json_lines(text: str, name: str) -> list[tuple[int, Mapping[str, Any]]]:
    found: list[tuple[int, Mapping[str, Any]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            told = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{name}, line {number} is not JSON: {error}", "one object on each line") from None
        if not isinstance(told, dict):
            raise UsageError(f"{name}, line {number} is not an object", 'write {"problem": ..., "solution": ...}')
        found.append((number, told))
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
    return SolutionPair(
        problem=_placed(problem, folder),
        solution=_placed(solution, folder),
        claim=_number(line.get("claim"), where),
        tags=tuple(tags.split() if isinstance(tags, str) else map(str, tags)),
    )


def _number(value: Any, where: str) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{where}: `claim` is {value!r}", "a claim is a number, such as 1.5") from None


def _placed(name: str, folder: Path) -> str:
    """Return a path from the manifest's folder; a name stays one."""
    looks_like_path = name.endswith(".py") or "/" in name
    return str(folder / Path(name).expanduser()) if looks_like_path else name


def keep_text(text: str, name: str, sources: Path) -> str:
    """Keep a text as a file, once, by its hash, so that a sweep can go on later; return its path."""
    data = text.encode(errors="replace")
    if len(data) > LONGEST_SOURCE:
        raise UsageError(f"`{name}` has a source of {len(data)} bytes", f"{LONGEST_SOURCE} are the limit")
    stem = "".join(letter if letter.isalnum() or letter in "_-." else "_" for letter in Path(name).stem)[:60]
    path = sources / f"{stem or 'candidate'}-{hashlib.sha256(data).hexdigest()[:12]}.py"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".new")
        draft.write_bytes(data)
        draft.replace(path)
    return str(path.absolute())


def keep_lines(text: str, sources: Path) -> str:
    """Keep the lines of the standard input, so that a sweep can go on without them; return the file."""
    sources.mkdir(parents=True, exist_ok=True)
    path = sources / "stdin.jsonl"
    path.write_text(text, encoding="utf-8")
    return str(path)
