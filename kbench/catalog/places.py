"""Locations of problem and solution files: shipped, from entry points, from the settings, beside one another.

Nothing is opened, so that completion is fast. Solutions of a problem `softmax.py` in a folder `D` are in `D/softmax`,
`D/solutions/softmax` and `D/../solutions/softmax`; the package itself is laid out in the last way.
"""

import contextlib
import importlib.util
import os
from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal

from kbench.storage.settings import Settings

Origin = Literal["kbench", "entry point", "settings", "path"]
Found = tuple[Path, Origin]

BUILTINS = {
    "eager": "The reference itself, as plain PyTorch runs it",
    "compile": "The reference through torch.compile",
    "compile-max-autotune": "The reference through torch.compile, mode max-autotune",
}
"""Solutions of every problem that need no file."""

_PACKAGE = Path(__file__).resolve().parent.parent


def solution_names(problem: str, settings: Settings) -> tuple[str, ...]:
    """Offer names of a problem's solutions for shell completion: from file names alone, nothing is parsed."""
    path = as_path(problem)
    if path is None:
        path = next((found for found, _ in problem_files(settings) if found.stem == problem), None)
    if path is None:
        return tuple(BUILTINS)
    return (*(found.stem for found, _ in solution_files(path, settings)), *BUILTINS)


def problem_files(settings: Settings) -> list[Found]:
    """List the files that may be problems, shipped ones first, each once."""
    places: list[Found] = [(_PACKAGE / "problems", "kbench")]
    places += [(place, "entry point") for place in _entry_point_places("kbench.problems")]
    places += [(each, "settings") for place in settings.paths for each in (place, place / "problems")]
    return _python_files(places)


def solution_files(problem: Path, settings: Settings) -> list[Found]:
    """List the files that may be solutions of the problem in this file, each once."""
    name, beside = problem.stem, problem.resolve().parent
    folders = [place.parent if place.suffix == ".py" else place for place in settings.paths]
    here = Path("solutions") / name  # where `kbench new solution` writes for a problem by name
    near = (beside / name, beside / "solutions" / name, beside.parent / "solutions" / name, here)
    places: list[Found] = [(_PACKAGE / "solutions" / name, "kbench")]
    places += [(place / name, "entry point") for place in _entry_point_places("kbench.solutions")]
    places += [(each, "settings") for folder in folders for each in (folder / "solutions" / name, folder / name)]
    places += [(folder, "path") for folder in near]
    return _python_files(places)


def as_path(name_or_path: str | Path) -> Path | None:
    """Return the path if the text looks like one; None for a name."""
    text = str(name_or_path)
    looks_like_path = isinstance(name_or_path, Path) or text.endswith(".py") or "/" in text or "\\" in text
    return Path(name_or_path).expanduser() if looks_like_path else None


def provider_of(text: str) -> tuple[str, str]:
    """Split `file.py:function` and `package.module:function`; the second part is empty for anything else."""
    place, _, attribute = text.rpartition(":")
    if not place or not attribute.isidentifier() or Path(text).exists():
        return text, ""
    is_module = all(part.isidentifier() for part in place.split("."))
    return (place, attribute) if is_module or as_path(place) is not None else (text, "")


def module_file(dotted: str) -> Path | None:
    """Return the file of a module in the current folder or an installed package; nothing is imported."""
    places = _module_places(dotted)
    files = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
    return next((file for file in files if file.is_file()), None)


def _python_files(places: list[Found]) -> list[Found]:
    """Return the places that are Python files, and the public Python files in those that are folders, each once."""
    found: dict[Path, Found] = {}
    for place, origin in places:
        is_file = place.suffix == ".py" and place.is_file()
        inside = (path for path in sorted(place.glob("*.py")) if not path.name.startswith("_"))
        for path in [place] if is_file else inside:
            # Unlike `resolve`, this accepts circular links.
            found.setdefault(Path(os.path.realpath(path)), (path, origin))
    return list(found.values())


def _entry_point_places(group: str) -> list[Path]:
    """Return the files and folders of the modules that installed packages name for a group."""
    named = [place for point in entry_points(group=group) for place in _module_places(point.module)]
    return [file if (file := place.with_suffix(".py")).is_file() else place for place in named]


def _module_places(dotted: str) -> list[Path]:
    """Return where a module may lie, without its ending: in the current folder, or in its installed package."""
    parts = dotted.split(".")
    folders: list[Path] = []
    with contextlib.suppress(ImportError, ValueError):
        if (spec := importlib.util.find_spec(parts[0])) is not None:
            folders = [Path(place).parent for place in spec.submodule_search_locations or [spec.origin or "."]]
    return [folder.joinpath(*parts) for folder in (Path.cwd(), *folders)]
